"""What draining refuses, what it waits for, and what not."""

import pytest

from nsqlake.nsqd.core.dead_letters import dead_topic_name
from nsqlake.nsqd.daemon import Daemon
from nsqlake.nsqd.dead_letters import DeadLetterError
from nsqlake.nsqd.draining import undrained
from nsqlake.testing.nsqd import NsqdFixture, running_nsqd
from nsqlake.wire import commands
from tests.integration.conftest import Connect
from tests.integration.support import eventually, figures, find_channel, has_topic, pause


def drain(nsqd: NsqdFixture) -> None:
    nsqd.call(lambda daemon: daemon.broker.start_drain())


def holders(nsqd: NsqdFixture) -> list[str]:
    return nsqd.call(lambda daemon: [str(holder) for holder in undrained(daemon.broker)])


def has_ended(nsqd: NsqdFixture) -> bool:
    return nsqd.call(lambda daemon: daemon.stopping.is_set())


def test_nothing_is_published_while_draining_and_the_connection_stays(connect: Connect) -> None:
    with running_nsqd() as nsqd:
        client = connect(nsqd)
        client.sub("t", "c", 0)
        client = connect(nsqd)
        client.pub("t", b"before", b"again")

        drain(nsqd)
        client.send(commands.pub("t", b"x"), commands.mpub("t", [b"x"]), commands.dpub("t", 1, b"x"))
        client.send(commands.pub("new", b"x"), commands.mpub("new", [b"x"]))

        for name in ("PUB", "MPUB", "DPUB", "PUB", "MPUB"):
            assert client.error() == f"E_{name}_FAILED {name} failed draining"
        assert (has_topic(nsqd, "new"), figures(nsqd, "t", "c").depth) == (False, 2)


def test_the_short_way_of_a_lone_publisher_is_closed_too(connect: Connect) -> None:
    with running_nsqd() as nsqd:
        client = connect(nsqd)
        connect(nsqd).sub("t", "c", 0)
        for _ in range(3):
            client.pub("t", b"x")

        drain(nsqd)
        client.send(commands.pub("t", b"x"))

        assert client.error() == "E_PUB_FAILED PUB failed draining"


def test_an_empty_daemon_is_drained_at_once(connect: Connect) -> None:
    with running_nsqd() as nsqd:
        connect(nsqd).sub("t", "c", 1)

        drain(nsqd)

        eventually(lambda: has_ended(nsqd))


def test_draining_ends_when_consumers_have_finished_everything(connect: Connect) -> None:
    with running_nsqd() as nsqd:
        client, producer = connect(nsqd), connect(nsqd)
        client.sub("t", "c", 1)
        producer.pub("t", b"one", b"two")
        first = client.message()
        drain(nsqd)
        assert (holders(nsqd), has_ended(nsqd)) == (["CHANNEL(t/c)"], False)

        client.fin(first)
        client.fin(client.message())

        eventually(lambda: has_ended(nsqd))
        assert nsqd.call(lambda daemon: daemon.broker.draining)


def test_deferred_messages_and_paused_topics_are_waited_for(connect: Connect) -> None:
    with running_nsqd() as nsqd:
        client = connect(nsqd)
        connect(nsqd).sub("deferred", "c")
        connect(nsqd).sub("paused", "c")
        client.send(commands.dpub("deferred", 60_000, b"x"))
        client.expect_ok()
        pause(nsqd, "paused")
        client.pub("paused", b"x")

        drain(nsqd)

        assert holders(nsqd) == ["CHANNEL(deferred/c)", "TOPIC(paused)"]


def test_messages_without_a_channel_and_dead_letters_are_not_waited_for(connect: Connect) -> None:
    with running_nsqd(max_attempts=1) as nsqd:
        client, producer = connect(nsqd), connect(nsqd)
        producer.pub("nobody", b"x")
        client.sub("t", "c", 1)
        producer.pub("t", b"x")
        message = client.message()

        drain(nsqd)
        client.req(message)

        eventually(lambda: has_ended(nsqd))
        assert figures(nsqd, dead_topic_name("t", "c"), "dead").depth == 1


def test_a_consumer_may_still_come_but_makes_no_topic(connect: Connect) -> None:
    with running_nsqd() as nsqd:
        client = connect(nsqd)
        client.pub("t", b"x")
        pause(nsqd, "t")
        connect(nsqd).sub("t", "c")
        drain(nsqd)

        late = connect(nsqd)
        late.sub("t", "c", 1)
        pause(nsqd, "t", paused=False)
        assert late.message().body == b"x"
        client.send(commands.sub("new", "c"))

        client.expect_fatal("E_SUB_FAILED SUB failed draining")


def test_draining_is_told_once_and_dead_letters_stay(connect: Connect) -> None:
    with running_nsqd(max_attempts=1) as nsqd:
        told: list[str] = []
        nsqd.call(lambda daemon: daemon.broker.on_drain.append(lambda: told.append("draining")))
        client, producer = connect(nsqd), connect(nsqd)
        client.sub("t", "c", 1)
        producer.pub("t", b"x", b"y")
        client.req(client.message())
        eventually(lambda: has_topic(nsqd, "t.c.dead") and figures(nsqd, "t.c.dead", "dead").depth == 1)

        drain(nsqd)
        drain(nsqd)

        def replay(daemon: Daemon):  # type: ignore[no-untyped-def]
            return daemon.broker.replay_dead(find_channel(daemon, "t", "c"))

        assert told == ["draining"]
        with pytest.raises(DeadLetterError, match="draining"):
            nsqd.call(replay)
