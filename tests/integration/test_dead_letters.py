"""Dead letters from the consumer that fails to the operator who replays, over real sockets and files."""

import asyncio
import logging
import os

import pytest

from nsqlake.nsqd.core.dead_letters import DeadLetter
from nsqlake.nsqd.daemon import Daemon
from nsqlake.nsqd.dead_letters import DeadLetterError
from nsqlake.testing.nsqd import NsqdFixture, running_nsqd
from nsqlake.topiclog.errors import AppendError
from tests.fakes.tcp_client import TcpClient
from tests.integration.conftest import Connect
from tests.integration.support import (
    MS,
    eventually,
    figures,
    find_channel,
    find_topic,
    has_topic,
    pause,
    set_free_bytes_needed,
)

DEAD = "t.c.dead"


def dead_letters(nsqd: NsqdFixture, channel: str = "c", **window: int) -> list[DeadLetter]:
    return nsqd.call(lambda daemon: daemon.broker.dead_letters(find_channel(daemon, "t", channel), **window))


def replay(nsqd: NsqdFixture, message_id: str | None = None, topic: str = "t") -> int:
    return nsqd.call(lambda daemon: daemon.broker.replay_dead(find_channel(daemon, topic, "c"), message_id))


def kill_messages(nsqd: NsqdFixture, client: TcpClient, *bodies: bytes) -> list[DeadLetter]:
    """Publish and requeue until all are dead; the client stays subscribed to `t/c`."""
    client.sub("t", "c", 100)
    with TcpClient(nsqd.tcp_address) as producer:
        producer.pub("t", *bodies)
    for message in client.messages(len(bodies)):
        client.req(message)
    eventually(lambda: has_topic(nsqd, DEAD) and figures(nsqd, DEAD, "dead").depth == len(bodies))
    eventually(lambda: figures(nsqd, "t", "c").depth == 0)  # they are stored and synced there first
    return dead_letters(nsqd)


def test_a_message_requeued_too_often_moves_as_it_was(connect: Connect) -> None:
    with running_nsqd(max_attempts=3) as nsqd:
        client = connect(nsqd)
        client.pub("t", b"poison")
        client.sub("t", "c", 1)
        for _ in range(3):
            message = client.message()
            client.req(message)
        eventually(lambda: has_topic(nsqd, DEAD) and figures(nsqd, DEAD, "dead").depth == 1)

        (letter,) = dead_letters(nsqd)
        undertaker = connect(nsqd)
        undertaker.sub(DEAD, "dead", 1)
        dead = undertaker.message()

        assert (letter.original_id, letter.reason, letter.attempts) == (message.id.decode(), "requeued", 3)
        assert (letter.published_ns, letter.size) == (message.timestamp_ns, 6)
        assert letter.at_ns >= letter.published_ns
        assert (dead.body, dead.attempts, dead.id.decode()) == (b"poison", 1, letter.id)
        eventually(lambda: figures(nsqd, "t", "c")[:3] == (0, 0, 0))
        client.expect_nothing_so_far()
        undertaker.fin(dead)
        eventually(lambda: dead_letters(nsqd) == [])


def test_timeouts_and_lost_consumers_count_too(connect: Connect) -> None:
    with running_nsqd(max_attempts=1, msg_timeout_ns=200 * MS) as nsqd:
        client, producer = connect(nsqd), connect(nsqd)
        client.sub("t", "c", 1)
        producer.pub("t", b"slow")
        client.message()
        eventually(lambda: [letter.reason for letter in dead_letters(nsqd)] == ["timed out"])
        producer.pub("t", b"fatal")
        client.message()

        client.close()
        eventually(lambda: len(dead_letters(nsqd)) == 2)

        assert [letter.reason for letter in dead_letters(nsqd)] == ["timed out", "disconnected"]


def test_a_limit_of_its_own_outlives_a_restart(tmp_path: os.PathLike[str], connect: Connect) -> None:
    with running_nsqd(data_path=str(tmp_path)) as nsqd:
        connect(nsqd).sub("t", "c")
        nsqd.call(lambda daemon: daemon.broker.set_max_attempts(find_channel(daemon, "t", "c"), 1))

    with running_nsqd(data_path=str(tmp_path), max_attempts=9) as nsqd:
        kill_messages(nsqd, connect(nsqd), b"x")
        nsqd.call(lambda daemon: daemon.broker.set_max_attempts(find_channel(daemon, "t", "c"), None))

        assert nsqd.call(lambda daemon: find_channel(daemon, "t", "c").core.max_attempts) == 9
        assert nsqd.call(lambda daemon: find_channel(daemon, DEAD, "dead").core.max_attempts) == 0


def test_dead_letters_are_listed_in_parts(connect: Connect) -> None:
    with running_nsqd(max_attempts=1) as nsqd:
        letters = kill_messages(nsqd, connect(nsqd), *(b"%d" % number for number in range(5)))

        assert len(letters) == 5
        assert dead_letters(nsqd, limit=2) == letters[:2]
        assert dead_letters(nsqd, after=letters[1].offset, limit=2) == letters[2:4]
        assert dead_letters(nsqd, limit=0) == dead_letters(nsqd, after=letters[-1].offset) == []


def test_a_replayed_message_comes_to_its_own_channel_only(connect: Connect) -> None:
    with running_nsqd(max_attempts=1) as nsqd:
        client, other, backlog = connect(nsqd), connect(nsqd), connect(nsqd)
        other.sub("t", "other", 100)
        backlog.sub("t", "backlog")
        letters = kill_messages(nsqd, client, b"one", b"two", b"three")
        other.fin(*other.messages(3))

        assert replay(nsqd, letters[1].id) == 1
        message = client.message()

        assert (message.body, message.attempts) == (b"two", 1)
        assert [letter.id for letter in dead_letters(nsqd)] == [letters[0].id, letters[2].id]
        client.fin(message)
        assert replay(nsqd) == 2
        assert {message.body for message in client.messages(2)} == {b"one", b"three"}
        connect(nsqd).pub("t", b"behind")
        assert other.message().body == b"behind"
        assert figures(nsqd, "t", "backlog").depth == 4
        assert figures(nsqd, DEAD, "dead")[:3] == (0, 0, 0)
        backlog.send(b"RDY 10\n")
        assert [at.body for at in backlog.messages(4)] == [b"one", b"two", b"three", b"behind"]


def test_replaying_is_done_once(tmp_path: os.PathLike[str], connect: Connect) -> None:
    with running_nsqd(data_path=str(tmp_path), max_attempts=1) as nsqd:
        kill_messages(nsqd, connect(nsqd), b"one", b"two")

    with running_nsqd(data_path=str(tmp_path)) as nsqd:
        assert (replay(nsqd), replay(nsqd)) == (2, 0)

    with running_nsqd(data_path=str(tmp_path)) as nsqd:
        client = connect(nsqd)
        client.sub("t", "c", 10)

        assert {message.body for message in client.messages(2)} == {b"one", b"two"}
        client.expect_nothing_so_far()
        assert dead_letters(nsqd) == []


def test_many_dead_letters_are_moved_and_replayed(connect: Connect) -> None:
    bodies = [b"%d" % number for number in range(1000)]
    with running_nsqd(max_attempts=1, max_rdy_count=2000) as nsqd:
        client = connect(nsqd)
        client.mpub("t", bodies)
        client.sub("t", "c", 2000)
        for message in client.messages(1000):
            client.req(message)
        eventually(lambda: has_topic(nsqd, DEAD) and figures(nsqd, DEAD, "dead").depth == 1000)
        eventually(lambda: figures(nsqd, "t", "c")[:3] == (0, 0, 0))

        assert replay(nsqd) == 1000

        assert sorted(message.body for message in client.messages(1000)) == sorted(bodies)


def test_what_cannot_be_replayed_says_why(connect: Connect) -> None:
    with running_nsqd(max_attempts=1) as nsqd:
        (letter,) = kill_messages(nsqd, connect(nsqd), b"x")
        for wrong in ("0" * 16, "nonsense", letter.original_id):
            with pytest.raises(DeadLetterError, match=f"no dead letter {wrong}"):
                replay(nsqd, wrong)
        pause(nsqd, "t")
        with pytest.raises(DeadLetterError, match="paused"):
            replay(nsqd, letter.id)
        pause(nsqd, "t", paused=False)
        undertaker = connect(nsqd)
        undertaker.sub(DEAD, "dead", 1)
        undertaker.message()

        with pytest.raises(DeadLetterError, match="in flight"):
            replay(nsqd, letter.id)
        assert (replay(nsqd), dead_letters(nsqd)[0].is_in_flight) == (0, True)


def test_a_channel_without_dead_letters_has_none(connect: Connect) -> None:
    with running_nsqd() as nsqd:
        connect(nsqd).sub("t", "c")

        assert (dead_letters(nsqd), replay(nsqd)) == ([], 0)


def test_letters_that_cannot_be_stored_wait_and_are_moved_later(
    connect: Connect, caplog: pytest.LogCaptureFixture
) -> None:
    with running_nsqd(max_attempts=1, max_topics=2) as nsqd:
        client = connect(nsqd)
        client.pub("in-the-way", b"x")
        client.pub("t", b"one", b"two")
        client.sub("t", "c", 100)
        for message in client.messages(2):
            client.req(message)

        eventually(lambda: "too many topics" in caplog.text)
        assert figures(nsqd, "t", "c")[:3] == (2, 0, 0)
        nsqd.call(lambda daemon: daemon.broker.delete_topic(find_topic(daemon, "in-the-way")))
        eventually(lambda: has_topic(nsqd, DEAD) and len(dead_letters(nsqd)) == 2)

        eventually(lambda: figures(nsqd, "t", "c")[:3] == (0, 0, 0))
        refusals = [record for record in caplog.records if record.levelno >= logging.ERROR]
        assert len([record for record in refusals if "too many topics" in record.getMessage()]) == 1
    caplog.clear()


def test_on_a_full_disk_a_message_stays_where_it_is(
    connect: Connect, caplog: pytest.LogCaptureFixture
) -> None:
    with running_nsqd(max_attempts=1) as nsqd:
        client, producer = connect(nsqd), connect(nsqd)
        kill_messages(nsqd, client, b"first")
        set_free_bytes_needed(nsqd, DEAD, 1 << 60)
        producer.pub("t", b"second")

        client.req(client.message())
        eventually(lambda: "disk full" in caplog.text)
        assert (figures(nsqd, "t", "c")[:3], len(dead_letters(nsqd))) == ((1, 0, 0), 1)
        set_free_bytes_needed(nsqd, DEAD, 1)

        eventually(lambda: len(dead_letters(nsqd)) == 2)
        eventually(lambda: figures(nsqd, "t", "c")[:3] == (0, 0, 0))
    caplog.clear()


def test_what_does_not_fit_is_not_replayed_and_stays_dead(connect: Connect) -> None:
    with running_nsqd(max_attempts=1) as nsqd:
        client = connect(nsqd)
        kill_messages(nsqd, client, b"one", b"two")
        set_free_bytes_needed(nsqd, "t", 1 << 60)

        with pytest.raises(AppendError, match="disk full"):
            replay(nsqd)

        assert (figures(nsqd, "t", "c")[:3], len(dead_letters(nsqd))) == ((0, 0, 0), 2)
        set_free_bytes_needed(nsqd, "t", 1)
        assert (replay(nsqd), len(client.messages(2))) == (2, 2)


def test_a_topic_that_keeps_nothing_on_disk_has_dead_letters_too(connect: Connect) -> None:
    with running_nsqd(max_attempts=1) as nsqd:
        client = connect(nsqd)
        client.pub("e#ephemeral", b"x")
        client.sub("e#ephemeral", "c", 1)
        client.req(client.message())
        eventually(lambda: has_topic(nsqd, "e.c.dead") and figures(nsqd, "e.c.dead", "dead").depth == 1)

        assert replay(nsqd, topic="e#ephemeral") == 1

        assert client.message().body == b"x"


def test_two_replays_at_once_do_not_double(connect: Connect) -> None:
    with running_nsqd(max_attempts=1) as nsqd:
        kill_messages(nsqd, connect(nsqd), b"x")

        async def both(daemon: Daemon) -> list[int | BaseException]:
            channel = find_channel(daemon, "t", "c")
            replays = [daemon.broker.replay_dead(channel) for _ in range(2)]
            return await asyncio.gather(*replays, return_exceptions=True)

        count, refusal = nsqd.call(both)

        assert (count, dead_letters(nsqd)) == (1, [])
        assert isinstance(refusal, DeadLetterError)
