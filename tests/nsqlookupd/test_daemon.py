"""The daemon as a whole: what it binds, warns of and clears up."""

import asyncio
from pathlib import Path

import pytest

from nsqlake.nsqlookupd import daemon as daemon_module
from nsqlake.nsqlookupd.daemon import Daemon
from nsqlake.nsqlookupd.options import NsqlookupdOptions
from nsqlake.runtime.errors import StartupError
from nsqlake.testing.nsqlookupd import running_nsqlookupd
from tests.fakes.http_connection import HttpConnection
from tests.fakes.lookup_client import LookupClient
from tests.integration.support import eventually

LOCAL = {"tcp_address": "127.0.0.1:0", "http_address": "127.0.0.1:0"}


def test_an_address_that_is_taken_is_named_and_nothing_stays_bound() -> None:
    with running_nsqlookupd() as first:
        taken = f"127.0.0.1:{first.http_port}"
        second = Daemon(NsqlookupdOptions(tcp_address="127.0.0.1:0", http_address=taken))

        with pytest.raises(StartupError, match=rf"listen \({taken}\) failed - .*address already in use"):
            asyncio.run(second.start())

        assert second.tcp_listener._closed


def test_unix_sockets(tmp_path: Path) -> None:
    path = str(tmp_path / "http.sock")
    with running_nsqlookupd(http_address=path) as lookupd, LookupClient(lookupd.tcp_address) as client:
        client.identify()
        with HttpConnection(path) as http:
            assert len(http.get_json("/nodes")["producers"]) == 1

        assert lookupd.call(lambda daemon: b'"http_port":0,' in daemon.peers.description)


def test_what_peers_left_is_cleared_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(daemon_module, "_CLEAR_INTERVAL_S", 0.01)
    with running_nsqlookupd() as lookupd:
        for _ in range(3):
            with LookupClient(lookupd.tcp_address) as client:
                client.identify()
                client.expect_ok(b"REGISTER t c\n")
            eventually(
                lambda: lookupd.call(lambda daemon: daemon.db.peers() == () and not daemon.db.has_traces)
            )

        assert lookupd.call(lambda daemon: daemon.db._peers._count) == 1


@pytest.mark.parametrize(
    ("options", "is_warned"),
    [
        ({"tcp_address": "0.0.0.0:0"}, True),
        ({}, False),
    ],
)
def test_an_open_port_is_pointed_out(
    options: dict[str, str], is_warned: bool, caplog: pytest.LogCaptureFixture
) -> None:
    with running_nsqlookupd(**options):
        assert ("is open to everybody who can reach it" in caplog.text) == is_warned
