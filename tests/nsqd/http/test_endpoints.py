"""`Endpoint`."""

from dataclasses import fields

import pytest

from nsqlake.nsqd.http.endpoints import CHANNEL, TOPIC, Access, Endpoint, RequestBody
from nsqlake.runtime.http import Response
from tests.nsqd.http.requests import new_request


def new_endpoint(**values: object) -> Endpoint:
    defaults = {
        "method": "POST",
        "path": "/new",
        "handler": lambda _: Response(),
        "access": Access.ADMIN,
        "tag": "t",
        "summary": "s",
    }
    return Endpoint(**{**defaults, **values})


def test_there_is_no_endpoint_without_a_permission() -> None:
    with pytest.raises(TypeError):
        Endpoint(method="POST", path="/new", handler=lambda _: Response(), tag="t", summary="s")  # type: ignore[call-arg]


def test_aliases_are_deprecated_and_otherwise_the_same() -> None:
    current, older = new_endpoint(aliases=("/old",)).with_aliases()

    assert (current.path, current.deprecated) == ("/new", False)
    assert (older.path, older.deprecated, older.aliases) == ("/old", True, ())
    same = {field.name for field in fields(Endpoint)} - {"path", "deprecated", "aliases"}
    assert all(getattr(older, name) == getattr(current, name) for name in same)


def test_a_route_has_the_limits_of_its_endpoint() -> None:
    body = RequestBody(description="b", max_bytes=7, too_big="MSG_TOO_BIG")
    guarded = Response()

    route = new_endpoint(body=body, deadline_s=3.0, plain=True).route(lambda _: guarded)

    assert (route.method, route.path, route.max_body_bytes, route.deadline_s) == ("POST", "/new", 7, 3.0)
    assert (route.too_big.status, route.too_big.code, route.plain) == (413, "MSG_TOO_BIG", True)
    assert route.handler(new_request()) is guarded


def test_without_a_body_little_is_tolerated() -> None:
    assert new_endpoint().route(lambda _: Response()).max_body_bytes == 0


def test_parameters_are_found_by_name() -> None:
    endpoint = new_endpoint(parameters=(TOPIC, CHANNEL))

    assert (endpoint.parameter("channel"), endpoint.parameter("x")) == (CHANNEL, None)
