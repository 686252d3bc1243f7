import pytest

from nsqlake.apps.tool_support.sources import (
    check_lookupd_addresses,
    check_nsqd_addresses,
    check_one_source,
    has_port,
)
from nsqlake.runtime.errors import ConfigurationError


def reason_of(nsqd: list[str], lookupd: list[str], **options: str) -> str:
    with pytest.raises(ConfigurationError) as caught:
        check_one_source(nsqd, lookupd, **options)
    return str(caught.value)


def test_one_source_is_enough() -> None:
    check_one_source(["a:1"], [])
    check_one_source([], ["a:1"])


def test_none_or_both_are_refused() -> None:
    assert reason_of([], []) == "--nsqd-tcp-address or --lookupd-http-address required"
    assert reason_of([], [], end=".") == "--nsqd-tcp-address or --lookupd-http-address required."
    assert reason_of(["a:1"], ["b:1"]) == "use --nsqd-tcp-address or --lookupd-http-address not both"
    assert reason_of(["a:1"], ["b:1"], nsqd_flag="nsqd-http-address") == (
        "use --nsqd-http-address or --lookupd-http-address not both"
    )


@pytest.mark.parametrize("address", ["a:1", "http://a:1", "https://a:1/x?y", "[::1]:4161"])
def test_an_address_with_a_port(address: str) -> None:
    assert has_port(address)


@pytest.mark.parametrize("address", ["a", "http://a/x", "a:", "[::1]", "a:b", "a:99999", ""])
def test_an_address_without_a_port_is_refused(address: str) -> None:
    with pytest.raises(ConfigurationError, match="missing port"):
        check_lookupd_addresses(["a:1", address])


def test_an_nsqd_is_host_and_port_or_the_path_of_a_socket() -> None:
    check_nsqd_addresses(["a:1", "/run/nsqd.sock", "[::1]:4150"])
    with pytest.raises(ConfigurationError) as caught:
        check_nsqd_addresses(["foo"])

    assert str(caught.value) == "dial tcp: address foo: missing port in address"
