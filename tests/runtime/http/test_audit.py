"""What administrators did, one line each."""

import pytest

from nsqlake.runtime.http.audit import record_change
from nsqlake.runtime.http.head import HeadParser
from nsqlake.runtime.http.limits import HttpLimits
from nsqlake.runtime.http.request import Peer, Request
from nsqlake.runtime.http.response import Response
from nsqlake.runtime.http.router import Route, Router
from tests.fakes.http_client import request_bytes

PARSER = HeadParser(Router([Route("POST", "/topic/delete", lambda _: Response())]), HttpLimits())


def recorded(caplog: pytest.LogCaptureFixture, query: str, identity: str | None = None) -> str:
    caplog.set_level("INFO", "nsqlake")
    head = PARSER.parse(request_bytes("POST", f"/topic/delete?{query}"))
    record_change(Request(head, b"", Peer(address="10.0.0.7:1")), ("topic", "channel"), 200, identity)
    return caplog.messages[-1]


@pytest.mark.parametrize(
    ("query", "shown"),
    [
        ("topic=a", " topic=a"),
        ("channel=c%23ephemeral&topic=a&other=1", " topic=a channel=c#ephemeral"),
        ("topic=a%0Ab", ' topic="a\\nb"'),
        ("topic=" + "x" * 300, " topic=" + "x" * 128),
        ("topic=%zz", ""),
        ("", ""),
    ],
)
def test_parameters_cannot_be_taken_for_another_part_of_the_line(
    caplog: pytest.LogCaptureFixture, query: str, shown: str
) -> None:
    assert recorded(caplog, query) == f"ADMIN(-@10.0.0.7:1): POST /topic/delete{shown} -> 200"


def test_who_is_known_is_named_and_never_left_out(caplog: pytest.LogCaptureFixture) -> None:
    assert recorded(caplog, "", "op s").startswith('ADMIN("op s"@10.0.0.7:1): ')

    assert getattr(caplog.records[-1], "is_unlimited", False)
