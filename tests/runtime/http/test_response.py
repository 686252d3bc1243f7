"""Answers and promises of answers."""

from nsqlake.runtime.http import FileResponse, HttpError, Later, Response, error_response, json_response
from nsqlake.runtime.http import text_response as text


def test_kinds_of_bodies_have_their_types():
    assert (text("ü").body, text(b"x", 500).status) == ("ü".encode(), 500)
    assert text("x").content_type == "text/plain; charset=utf-8"
    assert json_response({"a": 1.0}).body == b'{"a":1}'
    assert json_response(1).content_type == "application/json; charset=utf-8"


def test_an_error_becomes_its_message():
    response = error_response(HttpError(405, "METHOD_NOT_ALLOWED", headers=(("Allow", "GET"),)))

    assert (response.status, response.body) == (405, b'{"message":"METHOD_NOT_ALLOWED"}')
    assert response.headers == (("Allow", "GET"),)


def test_a_promise_may_be_kept_before_or_after_it_is_handed_over():
    for is_early in (True, False):
        later, received = Later(), []
        response = Response()
        steps = [lambda: later.resolve(response), lambda: later.hand_to(received.append)]  # noqa: B023
        for step in steps if is_early else reversed(steps):
            step()
        assert received == [response]


def test_a_file_is_done_once_however_often_it_is_discarded():
    calls: list[int] = []
    response = FileResponse([(0, 0, 5), (0, 9, 2)], "a/b", on_done=lambda: calls.append(1))

    response.discard()
    response.discard()

    assert (calls, response.count) == ([1], 7)
