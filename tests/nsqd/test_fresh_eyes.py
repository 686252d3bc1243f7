"""What a stranger found by breaking a running daemon."""

from pathlib import Path

import pytest

from nsqlake.nsqd.options import NsqdOptions, validate
from nsqlake.runtime.errors import ConfigurationError
from nsqlake.testing.nsqd import running_nsqd
from tests.fakes.tcp_client import TcpClient
from tests.integration.support import eventually


def test_a_topic_called_like_one_on_its_way_out_survives_a_restart(tmp_path: Path):
    with running_nsqd(data_path=str(tmp_path)) as nsqd, TcpClient(nsqd.tcp_address) as client:
        client.pub(".deleted-x", b"kept")

    with running_nsqd(data_path=str(tmp_path)) as nsqd, TcpClient(nsqd.tcp_address) as client:
        client.sub(".deleted-x", "c", rdy=1)

        assert client.message().body == b"kept"


def test_messages_published_after_the_end_of_a_log_was_lost_are_delivered(tmp_path: Path):
    options = {"data_path": str(tmp_path), "max_bytes_per_file": 4_000}
    with running_nsqd(**options) as nsqd, TcpClient(nsqd.tcp_address) as client:
        client.pub("t", *(b"x" * 500 for _ in range(40)))
        client.sub("t", "c", rdy=100)
        client.fin(*client.messages(40)[:39])
    sorted(tmp_path.glob("topics/t.topic/log/*.log"))[-1].unlink()

    with running_nsqd(**options) as nsqd, TcpClient(nsqd.tcp_address) as client:
        client.pub("t", *(b"%d" % number for number in range(20)))
        client.sub("t", "c", rdy=100)

        assert [message.body for message in client.messages(20)] == [b"%d" % number for number in range(20)]


def test_an_ephemeral_topic_without_room_in_memory_still_serves_a_waiting_consumer():
    with running_nsqd(mem_queue_size=0) as nsqd, TcpClient(nsqd.tcp_address) as consumer:
        consumer.sub("t#ephemeral", "c", rdy=5)
        with TcpClient(nsqd.tcp_address) as producer:
            producer.pub("t#ephemeral", b"one")

        assert consumer.message().body == b"one"


def test_an_empty_tcp_address_is_refused():
    with pytest.raises(ConfigurationError, match="--tcp-address must not be empty"):
        validate(NsqdOptions(tcp_address=""))


def test_a_message_that_looks_like_the_fin_of_the_only_one_out_is_a_message():
    with running_nsqd() as nsqd, TcpClient(nsqd.tcp_address) as client:
        client.pub("t", b"one", b"two", b"six")
        client.sub("t", "c", rdy=1)
        client.fin(client.message())
        second = client.message()
        line = b"FIN " + second.id + b"\n"

        client.send(b"PUB u\n" + len(line).to_bytes(4, "big"))
        eventually(lambda: nsqd.call(lambda daemon: any(not c._reader.is_empty for c in daemon.connections)))
        client.send(line)

        client.expect_ok()
        in_flight = nsqd.call(lambda daemon: daemon.broker.topics["t"].channels["c"].core.ledger.out.count)
        assert in_flight == 1
