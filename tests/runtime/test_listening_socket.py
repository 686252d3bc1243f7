"""Binding, and Go's words when it fails."""

import os
import re
import socket

import pytest

from nsqlake.runtime.addresses import address_text
from nsqlake.runtime.errors import StartupError
from nsqlake.runtime.listening_socket import open_listening_socket


def refused(text: str):
    return pytest.raises(StartupError, match=f"^{re.escape(text)}$")


def leave_stale_socket(path: str) -> None:
    with socket.socket(socket.AF_UNIX) as left_behind:
        left_behind.bind(path)
        left_behind.listen()


@pytest.mark.parametrize(
    ("address", "host"),
    [
        ("127.0.0.1:0", "127.0.0.1"),
        ("localhost:", "127.0.0.1"),
        ("[::1]:0", "::1"),
        (":0", "::"),
        ("0.0.0.0:0", "::"),
    ],
)
def test_the_same_addresses_are_bound_as_by_go(address, host):
    with open_listening_socket(address) as opened:
        assert opened.getsockname()[0] == host
        assert opened.getsockname()[1] > 0
        assert not opened.getblocking()
        assert not opened.get_inheritable()


def test_all_addresses_include_ipv4():
    with open_listening_socket(":0") as opened:
        port = opened.getsockname()[1]

        with socket.create_connection(("127.0.0.1", port)) as client:
            assert client.getpeername() == ("127.0.0.1", port)


def test_an_address_in_use_is_reported_in_the_words_of_go():
    with open_listening_socket("127.0.0.1:0") as first:
        taken = address_text(first.getsockname())

        with refused(f"listen ({taken}) failed - listen tcp {taken}: bind: address already in use"):
            open_listening_socket(taken)


def test_all_addresses_in_use_are_reported_as_they_were_given():
    with open_listening_socket(":0") as first:
        port = first.getsockname()[1]

        for address in (f":{port}", f"0.0.0.0:{port}"):
            with refused(f"listen ({address}) failed - listen tcp {address}: bind: address already in use"):
                open_listening_socket(address)


@pytest.mark.parametrize(
    ("address", "reason"),
    [
        ("127.0.0.1:99999", "listen tcp: address 99999: invalid port"),
        ("127.0.0.1:abc", "listen tcp: lookup tcp/abc: unknown port"),
        ("no such host:0", "listen tcp: lookup no such host: no such host"),
        ("192.0.2.1:0", "listen tcp 192.0.2.1:0: bind: cannot assign requested address"),
        ("/nowhere/x.sock", "listen unix /nowhere/x.sock: bind: no such file or directory"),
    ],
)
def test_an_impossible_address_is_refused(address, reason):
    with refused(f"listen ({address}) failed - {reason}"):
        open_listening_socket(address)


def test_a_path_too_long_for_a_socket_is_refused(tmp_path):
    path = str(tmp_path / ("x" * 120))

    with refused(f"listen ({path}) failed - listen unix {path}: bind: invalid argument"):
        open_listening_socket(path)


def test_a_stale_socket_file_is_replaced(tmp_path):
    path = str(tmp_path / "nsqd.sock")
    leave_stale_socket(path)

    with open_listening_socket(path), socket.socket(socket.AF_UNIX) as client:
        client.connect(path)


def test_a_socket_somebody_listens_on_is_left_alone(tmp_path):
    path = str(tmp_path / "nsqd.sock")

    with open_listening_socket(path), socket.socket(socket.AF_UNIX) as client:
        with refused(f"listen ({path}) failed - listen unix {path}: bind: address already in use"):
            open_listening_socket(path)
        client.connect(path)


def test_a_file_that_is_no_socket_is_left_alone(tmp_path):
    path = tmp_path / "precious"
    path.write_text("data")
    link = tmp_path / "link"
    os.symlink(path, link)

    for name in (path, link):
        with pytest.raises(StartupError, match="address already in use"):
            open_listening_socket(str(name))
    assert path.read_text() == "data"
