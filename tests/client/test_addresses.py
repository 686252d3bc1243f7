import pytest

from nsqlake.client.addresses import NsqdAddress, parse_local_address, parse_nsqd_address
from nsqlake.client.errors import InvalidArgumentError


@pytest.mark.parametrize(
    ("text", "expected", "shown"),
    [
        ("127.0.0.1:4150", NsqdAddress("127.0.0.1", 4150), "127.0.0.1:4150"),
        ("nsqd-1.example.com:5000", NsqdAddress("nsqd-1.example.com", 5000), "nsqd-1.example.com:5000"),
        ("NSQD", NsqdAddress("nsqd", 4150), "nsqd:4150"),
        ("my_nsqd.", NsqdAddress("my_nsqd.", 4150), "my_nsqd.:4150"),
        (":4150", NsqdAddress("localhost", 4150), "localhost:4150"),
        ("[::1]:5000", NsqdAddress("::1", 5000), "[::1]:5000"),
        ("[::1]", NsqdAddress("::1", 4150), "[::1]:4150"),
        ("::1", NsqdAddress("::1", 4150), "[::1]:4150"),
        ("[2001:DB8:0::1]:1", NsqdAddress("2001:db8::1", 1), "[2001:db8::1]:1"),
        ("[fe80::1%eth0]:4150", NsqdAddress("fe80::1%eth0", 4150), "[fe80::1%eth0]:4150"),
        ("unix:///run/nsqd.sock", NsqdAddress(path="/run/nsqd.sock"), "unix:///run/nsqd.sock"),
        ("/run/nsqd.sock", NsqdAddress(path="/run/nsqd.sock"), "unix:///run/nsqd.sock"),
    ],
)
def test_addresses_are_read_and_have_one_spelling(text: str, expected: NsqdAddress, shown: str) -> None:
    address = parse_nsqd_address(text)

    assert (address, str(address)) == (expected, shown)
    assert parse_nsqd_address(shown) == address


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "must be host:port"),
        ("host:", "must be host:port"),
        ("host:http", "must be host:port"),
        ("host:-1", "must be host:port"),
        ("host:1:2", "must be host:port"),
        ("host:0", "port 0 cannot be connected to"),
        ("host:65536", "port 65536 exceeds 65535"),
        ("http://host:4151", "must be host:port or unix:///path"),
        ("two hosts:4150", "not a host name"),
        ("host\n:4150", "not a host name"),
        ("-host:4150", "not a host name"),
        ("h" * 254, "not a host name"),
        ("[host]:4150", "no IPv6 address between the brackets"),
        ("[127.0.0.1]:4150", "no IPv6 address between the brackets"),
        ("unix://relative", "the path of a unix socket must be absolute"),
        ("unix:///" + "x" * 200, "not the path of a unix socket"),
        ("/with\0nul", "not the path of a unix socket"),
    ],
)
def test_what_is_no_address_is_refused(text: str, reason: str) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        parse_nsqd_address(text, argument="nsqd_tcp_addresses")

    assert (caught.value.argument, caught.value.reason) == ("nsqd_tcp_addresses", reason)


def test_only_text_is_an_address() -> None:
    with pytest.raises(InvalidArgumentError, match="must be text"):
        parse_nsqd_address(4150)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("10.0.0.1", ("10.0.0.1", 0)),
        ("10.0.0.1:99", ("10.0.0.1", 99)),
        ("::1", ("::1", 0)),
        ("[::1]:9", ("::1", 9)),
    ],
)
def test_local_addresses_may_leave_the_port_open(text: str, expected: tuple[str, int]) -> None:
    assert parse_local_address(text) == expected


@pytest.mark.parametrize("text", ["", "localhost", "10.0.0.1:x"])
def test_a_local_address_is_an_ip(text: str) -> None:
    with pytest.raises(ValueError, match="must be"):
        parse_local_address(text)
