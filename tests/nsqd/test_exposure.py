"""`warn_if_open`."""

import pytest

from nsqlake.nsqd.exposure import warn_if_open
from nsqlake.nsqd.option_choices import HttpAuth, TLSRequired
from nsqlake.nsqd.options import NsqdOptions

LOCAL = {"tcp_address": "127.0.0.1:4150", "http_address": "[::1]:4151"}


def warned(caplog: pytest.LogCaptureFixture, **options: object) -> list[str]:
    caplog.clear()
    warn_if_open(NsqdOptions(**options))
    return [line.split(" is ")[0] for line in caplog.messages]


def test_listeners_that_others_can_reach_are_named(caplog: pytest.LogCaptureFixture) -> None:
    assert warned(caplog) == ["TCP: 0.0.0.0:4150", "HTTP: 0.0.0.0:4151"]
    assert warned(caplog, http_address="") == ["TCP: 0.0.0.0:4150"]
    assert warned(caplog, **LOCAL) == []
    assert warned(caplog, tcp_address="/run/tcp.sock", http_address="/run/http.sock") == []


def test_what_tls_or_an_auth_server_protects_is_not(caplog: pytest.LogCaptureFixture) -> None:
    assert warned(caplog, auth_http_addresses=("a:1",)) == []
    assert warned(caplog, tls_required=TLSRequired.TRUE) == []
    assert warned(caplog, tls_required=TLSRequired.TCP_HTTPS) == ["HTTP: 0.0.0.0:4151"]


def test_an_api_that_asks_nobody_is_always_named(caplog: pytest.LogCaptureFixture) -> None:
    options = {"auth_http_addresses": ("a:1",), "http_auth": HttpAuth.OFF, **LOCAL}

    assert warned(caplog, **options) == [
        "HTTP: --http-auth=off, the API asks nobody for credentials, as in NSQ"
    ]
