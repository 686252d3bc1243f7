import asyncio
import os
import socket

import pytest

from nsqlake.nsqd.daemon import Daemon
from nsqlake.runtime.errors import ConfigurationError, StartupError
from nsqlake.runtime.timers import LoopTimers
from nsqlake.testing.broker_view import ChannelCounts
from nsqlake.testing.errors import NotReachedError, RealClockError
from nsqlake.testing.nsqd import running_nsqd
from nsqlake.wire.errors import ClientError
from tests.fakes.tcp_client import TcpClient


def test_nsqd_listens_on_a_port_of_its_own() -> None:
    with running_nsqd() as one, running_nsqd() as other:
        assert one.tcp_port != other.tcp_port
        assert one.tcp_address == f"127.0.0.1:{one.tcp_port}"


def test_nsqd_has_the_options_it_was_given() -> None:
    with running_nsqd(node_id=7) as nsqd:
        assert nsqd.options.node_id == 7


def test_data_path_goes_with_the_nsqd() -> None:
    with running_nsqd() as nsqd, TcpClient(nsqd.tcp_address) as client:
        client.pub("t", b"x")
        path = nsqd.options.data_path
        assert os.listdir(path)

    assert not os.path.exists(path)


def test_given_data_path_stays(tmp_path: os.PathLike[str]) -> None:
    with running_nsqd(data_path=str(tmp_path)) as nsqd, TcpClient(nsqd.tcp_address) as client:
        client.pub("t", b"x")

    assert os.listdir(tmp_path)


def test_calls_run_on_the_loop_of_the_daemon_and_may_be_coroutines() -> None:
    async def count_topics(daemon: Daemon) -> int:
        return len(daemon.broker.topics)

    with running_nsqd() as nsqd:
        assert nsqd.call(count_topics) == 0
        assert nsqd.call(lambda daemon: daemon is nsqd.daemon)
        with pytest.raises(ZeroDivisionError):
            nsqd.call(lambda _: 1 // 0)


def test_what_hinders_the_start_is_raised() -> None:
    with running_nsqd() as nsqd, pytest.raises(StartupError), running_nsqd(tcp_address=nsqd.tcp_address):
        pass

    with pytest.raises(ConfigurationError), running_nsqd(node_id=-1):
        pass


def test_port_is_closed_after_the_stop() -> None:
    with running_nsqd() as nsqd:
        port = nsqd.tcp_port

    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port))


def test_bodies_of_a_topic_are_those_published_and_finishing_leaves_them() -> None:
    with running_nsqd() as nsqd, TcpClient(nsqd.tcp_address) as consumer:
        consumer.sub("t", "c", rdy=5)
        nsqd.publish("t", b"one", b"three")
        nsqd.publish("t", b"four")
        consumer.fin(*consumer.messages(3))
        nsqd.blocking.wait_empty("t", "c")

        assert nsqd.bodies("t") == [b"one", b"three", b"four"]
        assert nsqd.bodies("unknown") == []


def test_unfinished_messages_have_their_state_and_attempts() -> None:
    with running_nsqd() as nsqd, TcpClient(nsqd.tcp_address) as consumer:
        consumer.sub("t", "c", rdy=3)
        nsqd.publish("t", b"finished", b"out", b"deferred", b"fresh")
        finished, _, deferred = consumer.messages(3)
        consumer.send(b"RDY 0\n")
        consumer.req(deferred, 60_000)
        consumer.fin(finished)
        nsqd.blocking.wait_channel("t", "c", finished=1, deferred=1)

        found = [(each.body, each.state.value, each.attempts) for each in nsqd.unfinished("t", "c")]

        assert found == [(b"out", "out", 1), (b"deferred", "deferred", 1), (b"fresh", "fresh", 0)]
        assert nsqd.unfinished("t", "unknown") == []


def test_more_messages_than_one_look_shows_are_all_found() -> None:
    bodies = [b"%d" % number for number in range(2_500)]
    with running_nsqd() as nsqd:
        nsqd.create_channel("t", "c")
        nsqd.publish("t", *bodies)

        assert nsqd.bodies("t") == bodies
        assert [message.body for message in nsqd.unfinished("t", "c")] == bodies


def test_counts_of_a_channel() -> None:
    with running_nsqd() as nsqd, TcpClient(nsqd.tcp_address) as consumer:
        unknown = nsqd.channel("t", "c")
        consumer.sub("t", "c", rdy=2)
        nsqd.publish("t", b"1", b"2", b"3", b"4")
        nsqd.publish("t", b"later", delay_s=60)
        first, _ = consumer.messages(2)
        consumer.send(b"RDY 0\n")
        consumer.fin(first)

        counts = nsqd.blocking.wait_channel("t", "c", finished=1)

        assert unknown is None
        assert counts == ChannelCounts(
            depth=2, in_flight=1, deferred=1, consumers=1, finished=1, requeued=0, timed_out=0, dead=0
        )


def test_nothing_that_nsqd_refuses_is_published() -> None:
    with running_nsqd(max_msg_size=10) as nsqd:
        for topic, body in (("bad topic", b"x"), ("t", b""), ("t", b"x" * 11)):
            with pytest.raises(ClientError):
                nsqd.publish(topic, body)
        with pytest.raises(ClientError):
            nsqd.publish("t", b"x", delay_s=-1)
        with pytest.raises(ClientError):
            nsqd.create_channel("t", "bad channel")

        assert nsqd.bodies("t") == []


def test_waiting_ends_with_the_event_that_was_waited_for() -> None:
    async def scenario() -> int:
        with running_nsqd() as nsqd:
            waiting = asyncio.create_task(nsqd.wait_channel("t", "c", finished=2, consumers=0))
            with TcpClient(nsqd.tcp_address) as consumer:
                consumer.sub("t", "c", rdy=2)
                nsqd.publish("t", b"1", b"2")
                consumer.fin(*consumer.messages(2))
            return (await waiting).finished

    assert asyncio.run(scenario()) == 2


def test_waiting_in_vain_says_what_there_is() -> None:
    with running_nsqd() as nsqd:
        with pytest.raises(NotReachedError, match="no such channel"):
            nsqd.blocking.wait_empty("t", "c", limit_s=0.01)
        nsqd.create_channel("t", "c")
        nsqd.publish("t", b"x")

        with pytest.raises(TimeoutError, match=r"t/c with finished=1; there is ChannelCounts.depth=1"):
            asyncio.run(nsqd.wait_channel("t", "c", finished=1, limit_s=0.01))


def test_the_real_clock_cannot_be_moved() -> None:
    with running_nsqd() as nsqd:
        assert isinstance(nsqd.timers, LoopTimers)
        with pytest.raises(RealClockError):
            nsqd.blocking.advance(1)
        with pytest.raises(RealClockError):
            asyncio.run(nsqd.settle())
