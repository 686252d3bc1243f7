import pytest

from nsqlake.cluster.lookupd_answers import Producer


def test_address_is_the_broadcast_address_or_else_the_host_name() -> None:
    assert Producer(broadcast_address="b", hostname="h", tcp_port=1).tcp_address == "b:1"
    assert Producer(hostname="h", tcp_port=1, http_port=2).http_address == "h:2"


def test_ipv6_address_stands_in_brackets() -> None:
    producer = Producer(broadcast_address="fe80::1", tcp_port=4150)

    assert producer.tcp_address == "[fe80::1]:4150"
    assert producer.is_reachable


@pytest.mark.parametrize(
    "producer",
    [
        Producer(tcp_port=1),
        Producer(broadcast_address="h"),
        Producer(broadcast_address="h", tcp_port=-1),
        Producer(broadcast_address="h", tcp_port=65_536),
        Producer(broadcast_address="a b", tcp_port=1),
        Producer(broadcast_address="h\r\nx", tcp_port=1),
        Producer(broadcast_address="/tmp/socket", tcp_port=1),
        Producer(broadcast_address="user@h", tcp_port=1),
    ],
)
def test_producer_without_an_address_is_not_reachable(producer: Producer) -> None:
    assert not producer.is_reachable
