"""Addresses in Go's notation."""

import socket

import pytest

from nsqlake.runtime.addresses import (
    address_host,
    address_text,
    error_text,
    resolve_host,
    resolve_port,
    split_host_port,
)


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("127.0.0.1:4150", ("127.0.0.1", "4150")),
        (":4150", ("", "4150")),
        ("localhost:", ("localhost", "")),
        ("[::1]:0", ("::1", "0")),
        ("/run/nsqd.sock", None),
        ("/run/nsqd:1", None),
        ("nsqd.sock", None),
        ("::1:4150", None),
        ("[::1]", None),
        ("", None),
    ],
)
def test_host_and_port_or_else_a_path(address, expected):
    assert split_host_port(address) == expected


@pytest.mark.parametrize(
    ("address", "text", "host"),
    [
        (("127.0.0.1", 4150), "127.0.0.1:4150", "127.0.0.1"),
        (("::", 4150, 0, 0), "[::]:4150", "::"),
        (("::ffff:10.0.0.7", 9, 0, 0), "10.0.0.7:9", "10.0.0.7"),
        (("fe80::1%eth0", 9, 0, 2), "[fe80::1%eth0]:9", "fe80::1%eth0"),
        ("/run/nsqd.sock", "/run/nsqd.sock", ""),
        ("", "@", ""),
        (b"\0abstract", "\0abstract", ""),
    ],
)
def test_socket_addresses_are_printed_as_go_does(address, text, host):
    assert (address_text(address), address_host(address)) == (text, host)


def test_port_is_a_number_or_a_service():
    assert [resolve_port(port) for port in ("", "0", "4150", "65535", "http")] == [0, 0, 4150, 65_535, 80]


@pytest.mark.parametrize(
    ("port", "reason"),
    [
        ("65536", "address 65536: invalid port"),
        ("nonsense", "lookup tcp/nonsense: unknown port"),
        ("-1", "lookup tcp/-1: unknown port"),
        ("٣", "lookup tcp/٣: unknown port"),
        ("9" * 5_000, f"lookup tcp/{'9' * 5_000}: unknown port"),
    ],
)
def test_an_impossible_port_is_refused(port, reason):
    with pytest.raises(ValueError, match=f"^{reason}$"):
        resolve_port(port)


def test_a_host_name_becomes_an_ipv4_address_if_it_has_one():
    assert resolve_host("localhost", 4150) == (socket.AF_INET, ("127.0.0.1", 4150))
    assert resolve_host("::1", 4150)[0] == socket.AF_INET6


@pytest.mark.parametrize("host", ["no such host", "a" * 300])
def test_an_impossible_host_is_refused(host):
    with pytest.raises(ValueError, match=f"^lookup {host}: no such host$"):
        resolve_host(host, 0)


def test_errors_are_worded_as_go_does():
    assert error_text(OSError(98, "whatever")) == "address already in use"
    assert error_text(OSError("AF_UNIX path too long")) == "invalid argument"
