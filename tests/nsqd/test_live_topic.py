"""A topic as the daemon runs it: who waits for the disk is told the truth."""

import asyncio
import errno
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from nsqlake.nsqd.live_topic import LiveChannel, LiveTopic
from nsqlake.nsqd.topic_store import ChannelState, TopicStore
from nsqlake.wire.command_reader import Messages
from tests.fakes.faulty_files import FaultyFiles
from tests.fakes.loop_turns import next_turn
from tests.nsqd.core.support import NOW_NS, new_topic, publish
from tests.topiclog.support import open_log

Scenario = Callable[[LiveTopic, FaultyFiles], Awaitable[None]]


def on_disk(path: Path, scenario: Scenario) -> list[OSError | None]:
    """Run the scenario with a topic on disk; returns how its syncs went."""
    files, synced = FaultyFiles(), []

    async def run() -> None:
        log, _ = open_log(path / "log", files=files)
        store = TopicStore(files, str(path / "orders.topic"))
        store.prepare()
        with ThreadPoolExecutor(1) as executor:
            core = new_topic(log)
            topic = LiveTopic(
                core, executor, store=store, log=log, on_synced=lambda _, error: synced.append(error)
            )
            await scenario(topic, files)

    asyncio.run(run())
    return synced


def test_waiting_for_the_sync_ends_when_all_is_durable(tmp_path: Path) -> None:
    async def scenario(topic: LiveTopic, _files: FaultyFiles) -> None:
        base = publish(topic.core, b"x")
        waiter = topic.wait_synced()
        assert waiter is not None
        await waiter
        assert topic.log is not None
        assert topic.log.synced == base + 1
        assert not topic.is_busy

    assert on_disk(tmp_path, scenario) == [None]


def test_nothing_is_acknowledged_after_a_failed_sync(tmp_path: Path) -> None:
    async def scenario(topic: LiveTopic, files: FaultyFiles) -> None:
        publish(topic.core, b"first")
        files.fail("fdatasync", errno.EIO)
        first = topic.wait_synced()
        await next_turn()
        publish(topic.core, b"written while the sync runs that fails")
        second = topic.wait_synced()

        assert first is not None
        assert second is not None
        outcomes = await asyncio.gather(first, second, return_exceptions=True)

        assert [type(outcome) for outcome in outcomes] == [OSError, OSError]
        assert "sync failed" in topic.failure

    (error,) = on_disk(tmp_path, scenario)
    assert error is not None


def test_sync_that_nobody_waits_for_is_begun_at_once(tmp_path: Path) -> None:
    async def scenario(topic: LiveTopic, _files: FaultyFiles) -> None:
        publish(topic.core, b"x")
        topic.request_sync()
        assert topic.is_busy
        while topic.is_busy:
            await next_turn()

    assert on_disk(tmp_path, scenario) == [None]


def test_state_as_it_is_now_is_durable_when_saving_returns(tmp_path: Path) -> None:
    async def scenario(topic: LiveTopic, _files: FaultyFiles) -> None:
        topic.core.add_channel("c", NOW_NS)
        topic.channel_states["c"] = ChannelState("c", 5, 0)
        topic.core.pause()

        await topic.save_state()

        assert topic.store is not None
        state = topic.store.read_state()
        assert state is not None
        assert (state.paused, [channel.name for channel in state.channels]) == (True, ["c"])

    on_disk(tmp_path, scenario)


def test_state_that_cannot_be_saved_is_an_error(tmp_path: Path) -> None:
    async def scenario(topic: LiveTopic, files: FaultyFiles) -> None:
        files.fail("fsync", errno.ENOSPC)
        with pytest.raises(OSError, match="No space left"):
            await topic.save_state()

    on_disk(tmp_path, scenario)


def test_state_of_a_closed_topic_is_not_written(tmp_path: Path) -> None:
    async def scenario(topic: LiveTopic, _files: FaultyFiles) -> None:
        topic.core.is_closed = True
        await topic.save_state()
        assert topic.store is not None
        assert topic.store.read_state() is None

    on_disk(tmp_path, scenario)


def test_topic_in_memory_has_nothing_to_wait_for() -> None:
    async def scenario() -> None:
        topic = LiveTopic(new_topic(), ThreadPoolExecutor(1), on_synced=lambda _topic, _error: None)
        topic.request_sync()
        await topic.save_state()
        assert topic.wait_synced() is None
        assert (topic.failure, topic.is_busy) == ("", False)

    asyncio.run(scenario())


def crowded_topic() -> LiveTopic:
    topic = LiveTopic(new_topic(), ThreadPoolExecutor(1), on_synced=lambda _topic, _error: None)
    for publisher in range(100):
        topic.publishers.add(publisher)
    topic.forget_publishers()
    return topic


def test_topic_is_crowded_after_a_second_in_which_many_published() -> None:
    topic = crowded_topic()
    assert topic.is_crowded

    topic.publishers.add("alone")
    topic.forget_publishers()

    assert not topic.is_crowded


@pytest.mark.parametrize(("messages", "is_worth_it"), [(1, False), (100, True)])
def test_gathering_goes_on_only_while_it_brings_many_together(messages: int, is_worth_it: bool) -> None:
    topic = crowded_topic()

    for _ in range(1000):
        topic.note_gathered(messages)

    assert topic.is_crowded is is_worth_it


def test_messages_are_published_as_they_came() -> None:
    topic = LiveTopic(new_topic(), ThreadPoolExecutor(1), on_synced=lambda _topic, _error: None)
    channel = LiveChannel(topic.core.add_channel("c", NOW_NS), topic, None)

    topic.publish(Messages(b"MPUB", b"\0\0\0\1a\0\0\0\2bc", 2, 0, [0, 5, 11]), timestamp_ns=NOW_NS)
    topic.publish(Messages(b"DPUB", b"\0\0\0\1a", 1, 5), timestamp_ns=NOW_NS, due_ns=NOW_NS + 1)

    assert (channel.core.depth, len(channel.core.ledger.deferred)) == (2, 1)
    assert (str(topic), str(channel)) == ("TOPIC(orders)", "CHANNEL(orders/c)")
