"""Retention as the daemon applies it: on the disk, with the time moved."""

from pathlib import Path

from nsqlake.nsqd.broker import Broker
from nsqlake.nsqd.daemon import Daemon
from nsqlake.nsqd.housekeeping import _tidy
from nsqlake.runtime.durations import HOUR_NS
from nsqlake.testing.nsqd import NsqdFixture, running_nsqd
from tests.fakes.tcp_client import TcpClient

BODY = b"x" * 1000


def segments(nsqd: NsqdFixture, topic: str) -> int:
    return len(list(Path(nsqd.options.data_path, "topics", f"{topic}.topic", "log").glob("*.log")))


def finish_all(nsqd: NsqdFixture, topic: str, count: int = 10) -> None:
    """Publish, and let a consumer finish, messages that fill several segments."""
    with TcpClient(nsqd.tcp_address) as producer, TcpClient(nsqd.tcp_address) as consumer:
        consumer.sub(topic, "c", count)
        producer.pub(topic, *[BODY] * count)
        consumer.fin(*consumer.messages(count))
        consumer.expect_nothing_so_far()


def tidy_after(nsqd: NsqdFixture, topic: str, elapsed_ns: int) -> int:
    """What housekeeping does when so much time has passed; returns the messages that are still kept."""

    def tidy(daemon: Daemon) -> int:
        broker: Broker = daemon.broker
        live = broker.topics[topic]
        _tidy(broker, live, broker.now_ns() + elapsed_ns)
        return live.core.log.count(0, live.core.log.next)

    return nsqd.call(tidy)


def test_without_retention_finished_segments_go() -> None:
    with running_nsqd(max_bytes_per_file=3000) as nsqd:
        finish_all(nsqd, "t")

        assert tidy_after(nsqd, "t", 0) < 3


def test_finished_messages_stay_for_the_retention_time() -> None:
    with running_nsqd(max_bytes_per_file=3000, retention_time_ns=HOUR_NS) as nsqd:
        finish_all(nsqd, "t")

        assert tidy_after(nsqd, "t", HOUR_NS - HOUR_NS // 10) == 10
        assert tidy_after(nsqd, "t", HOUR_NS + HOUR_NS // 10) == 0
        assert segments(nsqd, "t") == 1


def test_the_last_bytes_stay() -> None:
    with running_nsqd(max_bytes_per_file=3000, retention_bytes=6000) as nsqd:
        finish_all(nsqd, "t")

        assert 2 <= tidy_after(nsqd, "t", HOUR_NS) <= 6


def test_a_policy_is_for_topics_by_name() -> None:
    policy = ("audit.*:time=2h",)
    with running_nsqd(max_bytes_per_file=3000, retention_time_ns=1, retention_policies=policy) as nsqd:
        finish_all(nsqd, "audit.eu")
        finish_all(nsqd, "orders")

        assert (tidy_after(nsqd, "audit.eu", HOUR_NS), tidy_after(nsqd, "orders", HOUR_NS)) == (10, 0)
        assert tidy_after(nsqd, "audit.eu", 3 * HOUR_NS) == 0


def test_retention_never_takes_what_a_channel_has_yet_to_finish() -> None:
    with running_nsqd(max_bytes_per_file=3000, retention_time_ns=1) as nsqd:
        with TcpClient(nsqd.tcp_address) as client:
            client.sub("t", "late")
        finish_all(nsqd, "t")

        assert tidy_after(nsqd, "t", 1000 * HOUR_NS) == 10


def test_a_topic_without_channels_keeps_its_messages_for_the_first() -> None:
    with running_nsqd(retention_time_ns=1) as nsqd, TcpClient(nsqd.tcp_address) as client:
        client.pub("t", *[BODY] * 10)

        assert tidy_after(nsqd, "t", 1000 * HOUR_NS) == 10
