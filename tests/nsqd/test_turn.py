"""The turn of the event loop, driven through a daemon in this process."""

import errno

import pytest

from nsqlake.testing.nsqd import running_nsqd
from nsqlake.wire import commands
from tests.fakes.faulty_files import FaultyFiles
from tests.fakes.tcp_client import TcpClient
from tests.nsqd.broker_on_disk import SECOND_NS, BrokerOnDisk


def test_a_message_times_out_although_a_later_alarm_is_set():
    with running_nsqd(msg_timeout_ns=300_000_000) as nsqd, TcpClient(nsqd.tcp_address) as producer:
        producer.send(commands.dpub("t", 3_600_000, b"in an hour"))
        producer.expect_ok()
        with TcpClient(nsqd.tcp_address) as consumer:
            consumer.sub("t", "c", rdy=5)

            producer.pub("t", b"now")
            first = consumer.message()

            assert consumer.message().attempts == first.attempts + 1


@pytest.mark.parametrize("consumer_settings", [{}, {"output_buffer_timeout": -1, "output_buffer_size": -1}])
def test_messages_that_follow_closely_all_arrive_in_order(consumer_settings):
    bodies = [b"%d" % number for number in range(300)]
    with (
        running_nsqd() as nsqd,
        TcpClient(nsqd.tcp_address) as producer,
        TcpClient(nsqd.tcp_address) as consumer,
    ):
        consumer.identify(**consumer_settings)
        consumer.sub("t", "c", rdy=1000)

        for body in bodies:
            producer.pub("t", body)

        assert [consumer.message().body for _ in bodies] == bodies


def test_stream_stops_at_the_ready_count_and_goes_on_with_every_finish():
    bodies = [b"%d" % number for number in range(120)]
    with (
        running_nsqd() as nsqd,
        TcpClient(nsqd.tcp_address) as producer,
        TcpClient(nsqd.tcp_address) as consumer,
    ):
        consumer.sub("t", "c", rdy=40)
        for body in bodies:
            producer.pub("t", body)

        received = []
        for _ in bodies:
            message = consumer.message()
            received.append(message.body)
            consumer.send(commands.fin(message.id))

        assert received == bodies


def test_a_crowd_of_consumers_with_one_message_each_gets_every_message_once():
    with running_nsqd() as nsqd, TcpClient(nsqd.tcp_address) as producer:
        consumers = [TcpClient(nsqd.tcp_address) for _ in range(12)]
        for consumer in consumers:
            consumer.sub("t", "c", rdy=1)
        producer.send(commands.mpub("t", [b"%03d" % number for number in range(240)]))
        producer.expect_ok()

        received = []
        for _ in range(20):
            held = [consumer.message() for consumer in consumers]
            received += [message.body for message in held]
            for consumer, message in zip(consumers, held, strict=True):
                consumer.send(commands.fin(message.id))

        assert sorted(received) == [b"%03d" % number for number in range(240)]
        for consumer in consumers:
            consumer.close()


def test_a_log_that_cannot_be_read_is_reported_and_read_again(tmp_path, caplog):
    files = FaultyFiles()
    with BrokerOnDisk(str(tmp_path), files=files, mem_queue_size=0) as node:
        channel = node.channel()
        base = node.publish(b"x")
        files.fail("pread", errno.EIO)

        _, consumer = node.consume(channel, 1)
        before = list(consumer.received)
        node.clock.advance_ns(2 * SECOND_NS)
        channel.core.expire(node.clock.now_ns())
        node.broker.turn.wake(channel)
        node.settle()

    assert before == []
    assert [message.offset for message in consumer.received] == [base]
    assert "CHANNEL(orders/c): nothing is delivered, will be tried again: " in caplog.text
