"""`Router`: the table of spec section 4.1."""

import pytest

from nsqlake.runtime.http import HttpError, Response, Route, Router, text_response
from nsqlake.runtime.http.router import MAX_CACHED_TARGETS, Target


def answer(name: str):
    return lambda _: text_response(name)


ROUTER = Router(
    [
        Route("POST", "/pub", answer("pub"), too_big=HttpError(413, "MSG_TOO_BIG")),
        Route("GET", "/config/{key}", answer("get")),
        Route("PUT", "/config/{key}", answer("put")),
        Route("GET", "/config/all", answer("all")),
        Route("GET", "/topic/{name}/log", answer("log")),
        Route("GET", "/debug/pprof/", answer("index")),
    ]
)


def resolve(method: str, target: str) -> tuple[Target, Response]:
    resolved = ROUTER.resolve(method, target)
    response = resolved.handler(None)
    assert isinstance(response, Response)
    return resolved, response


@pytest.mark.parametrize(
    ("method", "target", "body", "path_params"),
    [
        ("POST", "/pub", b"pub", {}),
        ("POST", "/pub?topic=a", b"pub", {}),
        ("POST", "/pu%62", b"pub", {}),
        ("POST", "http://host:4151/pub?topic=a", b"pub", {}),
        ("GET", "/config/log_level", b"get", {"key": "log_level"}),
        ("PUT", "/config/log_level", b"put", {"key": "log_level"}),
        ("GET", "/config/all", b"all", {}),
        ("GET", "/topic/a%20b/log", b"log", {"name": "a b"}),
        ("GET", "/debug/pprof/", b"index", {}),
    ],
)
def test_path_and_method_lead_to_their_handler(method, target, body, path_params):
    resolved, response = resolve(method, target)

    assert response.body == body
    assert resolved.path_params == path_params


@pytest.mark.parametrize(
    ("method", "target", "status", "location"),
    [
        ("POST", "/Pub?topic=a", 307, "/pub?topic=a"),
        ("POST", "/pub/", 307, "/pub"),
        ("POST", "//pub?", 307, "/pub?"),
        ("POST", "/x/../pub", 307, "/pub"),
        ("GET", "/CONFIG/Log_Level", 301, "/config/Log_Level"),
        ("GET", "/config/a%20b/?x=%20", 301, "/config/a%20b?x=%20"),
        ("GET", "/config/%0d%0aSet-Cookie:%20a/", 301, "/config/%0D%0ASet-Cookie:%20a"),
        ("GET", "/debug/pprof", 301, "/debug/pprof/"),
        ("GET", "/TOPIC//x/LOG", 301, "/topic/x/log"),
    ],
)
def test_sloppy_paths_are_redirected_with_their_query(method, target, status, location):
    resolved, response = resolve(method, target)

    assert (response.status, response.headers, response.body) == (status, (("Location", location),), b"")
    assert resolved.route.plain


@pytest.mark.parametrize(
    ("method", "target"),
    [
        ("GET", "/nope"),
        ("GET", "/"),
        ("GET", "//"),
        ("GET", "/config"),
        ("GET", "/config/"),
        ("GET", "/config/a/b"),
        ("GET", "/config/a%2Fb"),
        ("GET", "/Pub"),
        ("OPTIONS", "/nope"),
        ("POST", "/pub#a"),
        ("POST", "/put"),
        ("POST", "//evil.example/"),
    ],
)
def test_unknown_paths_are_not_found(method, target):
    _, response = resolve(method, target)

    assert (response.status, response.body) == (404, b'{"message":"NOT_FOUND"}')


@pytest.mark.parametrize(
    ("method", "target", "allow"),
    [
        ("GET", "/pub", "OPTIONS, POST"),
        ("HEAD", "/pub", "OPTIONS, POST"),
        ("POST", "/config/a", "GET, OPTIONS, PUT"),
        ("FOO", "/pub", "OPTIONS, POST"),
    ],
)
def test_other_methods_are_told_which_are_allowed(method, target, allow):
    resolved, response = resolve(method, target)

    assert (response.status, response.body) == (405, b'{"message":"METHOD_NOT_ALLOWED"}')
    assert response.headers == (("Allow", allow),)
    assert not resolved.route.plain


@pytest.mark.parametrize(("target", "headers"), [("/pub", (("Allow", "OPTIONS, POST"),)), ("*", ())])
def test_options_are_answered_for_every_path(target, headers):
    resolved, response = resolve("OPTIONS", target)

    assert (response.status, response.body, response.headers) == (200, b"", headers)
    assert resolved.route.plain


@pytest.mark.parametrize("target", ["pub", "/pu%zz", "*", "ftp://host/pub", ":"])
def test_targets_that_are_none_are_bad(target):
    _, response = resolve("GET", target)

    assert (response.status, response.body) == (400, b'{"message":"INVALID_REQUEST"}')


def test_a_body_too_big_is_answered_by_the_route_or_by_its_absence():
    assert ROUTER.resolve("POST", "/pub").too_big.body == b'{"message":"MSG_TOO_BIG"}'
    assert ROUTER.resolve("POST", "/nope").too_big.status == 404


def test_targets_are_remembered_in_bounds():
    router = Router([Route("GET", "/ping", answer("ping"))])

    targets = [router.resolve("GET", f"/ping?{number}") for number in range(3 * MAX_CACHED_TARGETS)]

    assert router.resolve("GET", targets[-1].path + "?" + targets[-1].query) is targets[-1]
    assert router.resolve("GET", "/ping?" + "x" * 600) is not router.resolve("GET", "/ping?" + "x" * 600)
    assert len(router._targets) <= MAX_CACHED_TARGETS


def test_two_routes_for_the_same_are_a_mistake():
    route = Route("GET", "/ping", answer("ping"))

    with pytest.raises(ValueError, match="GET /ping"):
        Router([route, route])
