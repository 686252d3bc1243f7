"""The directory of one topic."""

import errno
import os
from pathlib import Path

import pytest

from nsqlake.nsqd.topic_store import (
    ChannelState,
    TopicState,
    TopicStore,
    describe,
    topic_directory,
    topic_name,
)
from nsqlake.topiclog import OS_FILES, write_atomic
from tests.fakes.faulty_files import FaultyFiles
from tests.nsqd.core.support import FIRST, NOW_NS, new_topic, publish_many
from tests.topiclog.support import flip_bit


def new_store(path: Path, files: FaultyFiles | None = None) -> TopicStore:
    store = TopicStore(files or OS_FILES, str(path / "orders.topic"))
    store.prepare()
    return store


@pytest.mark.parametrize("name", ["orders", ".", "..", "a.topic", "x#ephemeral"])
def test_name_of_a_topic_is_found_in_its_directory(name: str) -> None:
    directory = topic_directory(name)

    assert directory not in (".", "..")
    assert topic_name(directory) == name


@pytest.mark.parametrize("directory", ["orders", ".topic", "orders.topic.bak", ""])
def test_other_directories_are_no_topics(directory: str) -> None:
    assert topic_name(directory) is None


def test_state_is_read_back(tmp_path: Path) -> None:
    store = new_store(tmp_path)
    state = TopicState(
        fanout=7, paused=True, emptied=[(1, 2), (5, 6)], channels=[ChannelState("c", 9, 3, paused=True)]
    )

    store.write_state(state)

    assert store.read_state() == state


def test_new_topic_has_no_state(tmp_path: Path) -> None:
    assert new_store(tmp_path).read_state() is None


def test_damaged_state_falls_back_to_the_one_before(tmp_path: Path) -> None:
    store = new_store(tmp_path)
    store.write_state(TopicState(fanout=1))
    store.write_state(TopicState(fanout=2))
    assert store.find_state() == (TopicState(fanout=2), True)

    flip_bit(os.path.join(store.path, "state.1"), 300)

    assert store.find_state() == (TopicState(fanout=1), False)


@pytest.mark.parametrize("payload", [b"", b"{}", b"[1]", b'{"fanout": "x"}'])
def test_state_of_another_kind_is_no_state(tmp_path: Path, payload: bytes) -> None:
    store = new_store(tmp_path)
    write_atomic(OS_FILES, os.path.join(store.path, "state"), payload)

    assert store.read_state() is None


def test_state_that_cannot_be_written_leaves_the_old_one(tmp_path: Path) -> None:
    files = FaultyFiles()
    store = new_store(tmp_path, files)
    store.write_state(TopicState(fanout=1))
    files.fail("fsync", errno.EIO)

    with pytest.raises(OSError, match="Input/output error"):
        store.write_state(TopicState(fanout=2))

    assert store.read_state() == TopicState(fanout=1)


def test_preparing_removes_what_an_interrupted_write_left(tmp_path: Path) -> None:
    store = new_store(tmp_path)
    stale = Path(store.path, "state.123.tmp")
    stale.touch()

    store.prepare()

    assert not stale.exists()
    assert sorted(os.listdir(store.path)) == ["channels"]


def test_directories_are_for_the_owner_alone(tmp_path: Path) -> None:
    store = new_store(tmp_path)

    assert [os.stat(path).st_mode & 0o777 for path in (store.path, store.channels_path)] == [0o700, 0o700]


def test_parents_are_synced(tmp_path: Path) -> None:
    files = FaultyFiles()
    store = new_store(tmp_path, files)

    store.sync_parents()

    assert files.calls["sync_dir"] == 3


def test_description_has_what_cannot_be_rebuilt() -> None:
    topic = new_topic()
    publish_many(topic, 3)
    topic.empty()
    topic.add_channel("kept", NOW_NS).is_paused = True
    topic.add_channel("other#ephemeral", NOW_NS)
    topic.pause()
    states = {"kept": ChannelState("kept", 5, FIRST), "gone": ChannelState("gone", 6, FIRST)}

    state = describe(topic, states)

    assert state == TopicState(
        fanout=FIRST + 3,
        paused=True,
        emptied=[(FIRST, FIRST + 3)],
        channels=[ChannelState("kept", 5, FIRST, paused=True)],
        origin=FIRST,
    )
