"""An nsqd by a clock that the test moves. Nothing here takes time."""

import asyncio
from pathlib import Path

from nsqlake.runtime.durations import HOUR_NS
from nsqlake.testing.clock import START_NS, ManualClock
from nsqlake.testing.nsqd import running_nsqd
from nsqlake.wire import commands
from nsqlake.wire.received_message import Message
from tests.fakes.tcp_client import TcpClient
from tests.testing.stream_consumer import consume

MINUTE_S = 60


def test_a_message_times_out_when_its_time_has_passed_and_not_before() -> None:
    with running_nsqd(clock=ManualClock()) as nsqd, TcpClient(nsqd.tcp_address) as consumer:
        consumer.sub("orders", "mail", rdy=1)
        nsqd.publish("orders", b"x")
        first = consumer.message()

        nsqd.blocking.advance(MINUTE_S - 0.001)
        before = nsqd.channel("orders", "mail")
        nsqd.blocking.advance(0.001)

        assert before is not None
        assert (before.in_flight, before.timed_out) == (1, 0)
        assert consumer.message().attempts == first.attempts + 1


def test_a_requeued_message_comes_back_after_its_delay() -> None:
    with running_nsqd(clock=ManualClock()) as nsqd, TcpClient(nsqd.tcp_address) as consumer:
        consumer.sub("orders", "mail", rdy=1)
        nsqd.publish("orders", b"x")
        consumer.req(consumer.message(), 90_000)

        nsqd.blocking.advance(89)
        deferred = nsqd.channel("orders", "mail")
        nsqd.blocking.advance(1)

        assert deferred is not None
        assert deferred.deferred == 1
        assert consumer.message().attempts == 2


def test_a_delayed_message_is_delivered_when_it_is_due() -> None:
    with running_nsqd(clock=ManualClock()) as nsqd, TcpClient(nsqd.tcp_address) as consumer:
        consumer.sub("orders", "mail", rdy=2)
        nsqd.publish("orders", b"in an hour", delay_s=3_600)
        nsqd.publish("orders", b"now")
        now = consumer.message()
        consumer.fin(now)

        nsqd.blocking.advance(3_600)

        assert now.body == b"now"
        assert consumer.message().body == b"in an hour"


def test_messages_are_stamped_by_the_clock() -> None:
    clock = ManualClock()
    with running_nsqd(clock=clock) as nsqd:
        nsqd.publish("orders", b"x")
        nsqd.blocking.advance(10)
        nsqd.publish("orders", b"y")

        stamps = [message.timestamp_ns for message in nsqd.messages("orders")]

    assert stamps == [START_NS, START_NS + 10_000_000_000]


def test_messages_that_follow_each_other_at_one_moment_are_not_held_back() -> None:
    with running_nsqd(clock=ManualClock()) as nsqd, TcpClient(nsqd.tcp_address) as consumer:
        consumer.sub("orders", "mail", rdy=100)
        for number in range(3):
            nsqd.publish("orders", b"%d" % number)

        counts = nsqd.channel("orders", "mail")
        assert counts is not None
        assert counts.in_flight == 3


def test_what_follows_from_what_was_due_happens_at_its_own_time() -> None:
    """Delivered at 0, timed out at 60 s, requeued for 90: due at 150, in one move."""
    clock = ManualClock()
    handled: list[tuple[int, int]] = []

    def answer(message: Message) -> bytes:
        handled.append((message.attempts, (clock.now_ns() - START_NS) // 1_000_000_000))
        if message.attempts == 1:
            return b""
        return commands.req(message.id, 90_000) if message.attempts == 2 else commands.fin(message.id)

    async def scenario() -> None:
        with running_nsqd(clock=clock) as nsqd:
            consumer = await consume(nsqd.tcp_port, answer)
            nsqd.publish("orders", b"x")
            await nsqd.advance(1_000)
            await nsqd.wait_channel("orders", "mail", finished=1)
            consumer.transport.close()

    asyncio.run(scenario())
    assert handled == [(1, 0), (2, 60), (3, 150)]


def test_heartbeats_are_sent_by_the_clock() -> None:
    async def scenario() -> int:
        with running_nsqd(clock=ManualClock()) as nsqd:
            consumer = await consume(nsqd.tcp_port, lambda _: b"")
            await nsqd.advance(95)
            consumer.transport.close()
            return consumer.heartbeat_count

    assert asyncio.run(scenario()) == 3  # every 30 s


def test_a_client_that_answers_no_heartbeat_is_not_cut_off_by_the_clock() -> None:
    with running_nsqd(clock=ManualClock()) as nsqd, TcpClient(nsqd.tcp_address) as client:
        client.sub("orders", "mail", rdy=1)

        nsqd.blocking.advance(3_600)
        nsqd.publish("orders", b"x")

        assert client.message().body == b"x"
        assert len(client.heartbeats) == 120


def test_heartbeats_follow_the_interval_that_was_asked_for() -> None:
    with (
        running_nsqd(clock=ManualClock()) as nsqd,
        TcpClient(nsqd.tcp_address) as often,
        TcpClient(nsqd.tcp_address) as never,
    ):
        often.identify(heartbeat_interval=10_000)
        never.identify(heartbeat_interval=-1)

        nsqd.blocking.advance(60)
        often.expect_nothing_so_far()
        never.expect_nothing_so_far()

        assert (len(often.heartbeats), len(never.heartbeats)) == (6, 0)


def test_finished_messages_go_when_their_retention_time_is_over() -> None:
    def segments() -> int:
        folder = Path(nsqd.options.data_path, "topics", "orders.topic", "log")
        return len(list(folder.glob("*.log")))

    options = {"max_bytes_per_file": 3_000, "retention_time_ns": HOUR_NS}
    with running_nsqd(clock=ManualClock(), **options) as nsqd, TcpClient(nsqd.tcp_address) as consumer:
        consumer.sub("orders", "mail", rdy=10)
        for _ in range(10):
            nsqd.publish("orders", b"x" * 1_000)
        consumer.fin(*consumer.messages(10))
        nsqd.blocking.wait_empty("orders", "mail")
        nsqd.blocking.advance(1_800)
        kept = segments()
        nsqd.blocking.advance(1_801)

        assert kept > 2
        assert segments() < kept


def test_dead_letters_are_stored_before_the_move_ends() -> None:
    clock = ManualClock()
    with running_nsqd(clock=clock, max_attempts=2) as nsqd, TcpClient(nsqd.tcp_address) as consumer:
        consumer.sub("orders", "mail", rdy=1)
        nsqd.publish("orders", b"poison")

        nsqd.blocking.advance(2 * MINUTE_S)

        assert nsqd.bodies("orders.mail.dead") == [b"poison"]
        assert nsqd.blocking.wait_empty("orders", "mail").dead == 1


def test_two_brokers_follow_one_clock() -> None:
    clock = ManualClock()
    with running_nsqd(clock=clock) as one, running_nsqd(clock=clock) as other:
        for nsqd in (one, other):
            nsqd.create_channel("orders", "mail")
            nsqd.publish("orders", b"x", delay_s=30)

        one.blocking.advance(30)

        counts = [nsqd.channel("orders", "mail") for nsqd in (one, other)]
    assert [count.depth for count in counts if count is not None] == [1, 1]


def test_a_stopped_nsqd_no_longer_follows() -> None:
    clock = ManualClock()
    with running_nsqd(clock=clock) as nsqd:
        with running_nsqd(clock=clock):
            pass

        nsqd.blocking.advance(1)

    assert clock.elapsed_ns == 1_000_000_000
