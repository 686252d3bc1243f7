"""The turn of the event loop, driven through a daemon in this process."""

from nsqlake.testing.nsqd import running_nsqd
from nsqlake.wire import commands
from tests.fakes.tcp_client import TcpClient


def test_a_message_times_out_although_a_later_alarm_is_set():
    with running_nsqd(msg_timeout_ns=300_000_000) as nsqd, TcpClient(nsqd.tcp_address) as producer:
        producer.send(commands.dpub("t", 3_600_000, b"in an hour"))
        producer.expect_ok()
        with TcpClient(nsqd.tcp_address) as consumer:
            consumer.sub("t", "c", rdy=5)

            producer.pub("t", b"now")
            first = consumer.message()

            assert consumer.message().attempts == first.attempts + 1
