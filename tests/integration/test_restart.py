"""What a stop leaves for the next start, and failures of the disk between the two."""

import os
import shutil
import time

import pytest

from nsqlake.testing.nsqd import running_nsqd
from nsqlake.wire import commands
from tests.fakes.nsqd_process import NsqdProcess
from tests.integration.conftest import Connect
from tests.integration.support import eventually, figures, find_channel, find_topic, has_channel, pause


@pytest.fixture
def data_path(tmp_path: os.PathLike[str]) -> str:
    return str(tmp_path)


def test_delays_and_attempts_outlive_a_restart(data_path: str, connect: Connect) -> None:
    """NSQ delivers what was deferred at once."""
    with running_nsqd(data_path=data_path) as nsqd:
        client = connect(nsqd)
        client.pub("t", b"in flight")
        client.sub("t", "c", 1)
        message = client.message()
        begin = time.monotonic()
        client.send(commands.dpub("t", 600, b"deferred"))
        client.expect_ok()

    with running_nsqd(data_path=data_path) as nsqd:
        client = connect(nsqd)
        client.sub("t", "c", 5)
        again, deferred = client.message(), client.message()

    assert (again.id, again.body, again.attempts) == (message.id, b"in flight", 2)
    assert (deferred.body, deferred.attempts) == (b"deferred", 1)
    assert 0.6 <= time.monotonic() - begin < 3


def test_requeued_message_keeps_its_delay_over_a_restart(data_path: str, connect: Connect) -> None:
    with running_nsqd(data_path=data_path) as nsqd:
        client = connect(nsqd)
        client.pub("t", b"x")
        client.sub("t", "c", 1)
        client.req(client.message(), 60_000)
        eventually(lambda: figures(nsqd, "t", "c").deferred == 1)

    with running_nsqd(data_path=data_path) as nsqd:
        client = connect(nsqd)
        client.sub("t", "c", 1)

        client.expect_nothing_so_far()
        assert figures(nsqd, "t", "c")[:3] == (0, 0, 1)


def test_topics_channels_and_pauses_outlive_a_restart(data_path: str, connect: Connect) -> None:
    with running_nsqd(data_path=data_path) as nsqd:
        connect(nsqd).sub("paused", "c")
        connect(nsqd).sub("running", "paused")
        connect(nsqd).sub("running", "gone#ephemeral")
        connect(nsqd).sub("gone#ephemeral", "c")
        pause(nsqd, "paused")
        pause(nsqd, "running", "paused")

    with running_nsqd(data_path=data_path) as nsqd:
        assert nsqd.call(lambda daemon: sorted(daemon.broker.topics)) == ["paused", "running"]
        assert nsqd.call(lambda daemon: find_topic(daemon, "paused").core.is_paused)
        assert not nsqd.call(lambda daemon: find_topic(daemon, "running").core.is_paused)
        assert nsqd.call(lambda daemon: find_channel(daemon, "running", "paused").core.is_paused)
        assert not has_channel(nsqd, "running", "gone#ephemeral")


def test_deleted_channel_stays_deleted(data_path: str, connect: Connect) -> None:
    with running_nsqd(data_path=data_path) as nsqd:
        client = connect(nsqd)
        client.sub("t", "c")
        client.pub("t", b"x")
        nsqd.call(lambda daemon: daemon.broker.delete_channel(find_channel(daemon, "t", "c")))

    with running_nsqd(data_path=data_path) as nsqd:
        assert not has_channel(nsqd, "t", "c")


def test_stop_does_not_wait_for_clients(data_path: str, connect: Connect) -> None:
    """NSQ hangs until a connection without a magic closes."""
    with running_nsqd(data_path=data_path) as nsqd:
        silent, half, stalled, consumer = (
            connect(nsqd, magic=magic) for magic in (b"", b"  V", b"  V2", b"  V2")
        )
        stalled.send(b"PUB t\n\x00\x00\x00\x09abc")
        consumer.sub("t", "c", 1)
        begin = time.monotonic()

    assert time.monotonic() - begin < 1.5
    for client in (silent, half, stalled, consumer):
        client.expect_end()


def test_new_topic_on_a_lost_data_path_fails_and_works_again_afterwards(
    data_path: str, connect: Connect, caplog: pytest.LogCaptureFixture
) -> None:
    with running_nsqd(data_path=data_path) as nsqd:
        client = connect(nsqd)
        shutil.rmtree(os.path.join(data_path, "topics"))

        client.send(commands.pub("t", b"x"))
        text = client.error()
        os.mkdir(os.path.join(data_path, "topics"))
        client.pub("t", b"x")

    caplog.clear()
    assert text == "E_PUB_FAILED PUB failed topic not created: no such file or directory"


def test_damaged_message_is_not_delivered_and_the_others_are(
    data_path: str, connect: Connect, caplog: pytest.LogCaptureFixture
) -> None:
    """NSQ gives up the rest of the file."""
    with running_nsqd(data_path=data_path) as nsqd:
        connect(nsqd).pub("t", *(b"message number %d" % number for number in range(5)))
    (segment,) = (
        os.path.join(folder, name)
        for folder, _, names in os.walk(data_path)
        for name in names
        if name.endswith(".log")
    )
    with open(segment, "r+b") as file:
        at = file.read().index(b"message number 2")
        file.seek(at)
        file.write(b"MESSAGE")

    with running_nsqd(data_path=data_path) as nsqd:
        client = connect(nsqd)
        client.sub("t", "c", 10)
        bodies = [message.body for message in client.messages(4)]
        client.expect_nothing_so_far()

    caplog.clear()
    assert bodies == [b"message number %d" % number for number in (0, 1, 3, 4)]


def test_full_disk_is_an_error_that_is_not_fatal(connect: Connect, caplog: pytest.LogCaptureFixture) -> None:
    with running_nsqd(min_free_bytes=1 << 60) as nsqd:
        client = connect(nsqd)

        client.send(commands.pub("t", b"x"), commands.mpub("t", [b"x"]), commands.dpub("t", 1, b"x"))

        for name in ("PUB", "MPUB", "DPUB"):
            text = client.error()
            assert text.startswith(f"E_{name}_FAILED {name} failed ")
            assert "disk full" in text
        client.send(commands.nop())
    caplog.clear()


@pytest.mark.slow
def test_killed_daemon_has_lost_nothing(data_path: str) -> None:
    """NSQ loses what is in memory and what is in flight."""
    with NsqdProcess(data_path) as nsqd, nsqd.connect() as client:
        client.pub("t", *(b"%d" % number for number in range(10)))
        client.sub("t", "c", 3)
        held = client.messages(3)
        nsqd.kill()

    with NsqdProcess(data_path) as nsqd, nsqd.connect() as client:
        client.sub("t", "c", 20)
        messages = client.messages(10)

    assert {message.body for message in messages} == {b"%d" % number for number in range(10)}
    assert {message.id for message in held} <= {message.id for message in messages}


@pytest.mark.slow
def test_killed_daemon_leaves_nothing_of_what_was_ephemeral(data_path: str) -> None:
    with NsqdProcess(data_path) as nsqd, nsqd.connect() as one, nsqd.connect() as other:
        one.sub("t", "gone#ephemeral")
        other.sub("gone#ephemeral", "c")
        other.pub("gone#ephemeral", b"x")
        nsqd.kill()

    with NsqdProcess(data_path) as nsqd:
        nsqd.expect_alive()

    left = [name for folder, folders, files in os.walk(data_path) for name in (*folders, *files)]
    assert [name for name in left if "gone" in name] == []
