"""Heads of answers, to the letter."""

import re

import pytest

from nsqlake.runtime.http import HttpError, HttpLimits, Response, Route, Router, error_response, text_response
from nsqlake.runtime.http.encoding import MAX_CACHED_STARTS, ResponseEncoder
from nsqlake.runtime.http.head import HeadParser, RequestHead

OK = text_response("OK")
ROUTES = [Route("POST", "/pub", lambda _: OK), Route("GET", "/ping", lambda _: OK, plain=True)]


def head_of(method: str = "POST", path: str = "/pub", version: str = "1.1", extra: str = "") -> RequestHead:
    data = f"{method} {path} HTTP/{version}\r\nHost: a\r\n{extra}\r\n"
    return HeadParser(Router(ROUTES), HttpLimits()).parse(data.encode())


def lines_of(encoded: bytes) -> list[str]:
    text = re.sub(r"Date: \w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d GMT", "Date: now", encoded.decode())
    return text.split("\r\n")


def test_an_answer_looks_as_go_writes_it():
    assert lines_of(ResponseEncoder().encode(OK, head_of())) == [
        "HTTP/1.1 200 OK",
        "Content-Type: text/plain; charset=utf-8",
        "X-Nsq-Content-Type: nsq; version=1.0",
        "Date: now",
        "Content-Length: 2",
        "",
        "OK",
    ]


def test_headers_of_an_answer_are_sorted():
    error = HttpError(405, "METHOD_NOT_ALLOWED", headers=(("Allow", "OPTIONS, POST"),))

    assert lines_of(ResponseEncoder().encode(error_response(error), head_of())) == [
        "HTTP/1.1 405 Method Not Allowed",
        "Allow: OPTIONS, POST",
        "Content-Type: application/json; charset=utf-8",
        "X-Nsq-Content-Type: nsq; version=1.0",
        "Date: now",
        "Content-Length: 32",
        "",
        '{"message":"METHOD_NOT_ALLOWED"}',
    ]


def test_an_empty_answer_has_a_length_and_no_type():
    assert lines_of(ResponseEncoder().encode(Response(), head_of())) == [
        "HTTP/1.1 200 OK",
        "X-Nsq-Content-Type: nsq; version=1.0",
        "Date: now",
        "Content-Length: 0",
        "",
        "",
    ]


def test_a_plain_route_lacks_nsqs_header_even_for_a_shared_answer():
    encoder = ResponseEncoder()

    encoded = [encoder.encode(OK, head) for head in (head_of(), head_of("GET", "/ping"), head_of())]

    assert [b"X-Nsq" in each for each in encoded] == [True, False, True]


def test_http_1_0_gets_its_version_and_is_told_that_the_connection_stays():
    kept = head_of(version="1.0", extra="Connection: keep-alive\r\n")

    lines = lines_of(ResponseEncoder().encode(OK, kept))

    assert lines[0] == "HTTP/1.0 200 OK"
    assert lines[-3:] == ["Connection: keep-alive", "", "OK"]


def test_head_gets_the_length_without_the_body():
    lines = lines_of(ResponseEncoder().encode(OK, head_of("HEAD")))

    assert lines[-3:] == ["Content-Length: 2", "", ""]


def test_a_shared_answer_is_encoded_once_until_the_date_changes():
    encoder, head = ResponseEncoder(), head_of()

    first = encoder.encode(OK, head)
    assert encoder.encode(OK, head) is first

    encoder.tick()
    assert encoder.encode(OK, head) is not first


@pytest.mark.parametrize("value", ["a\r\nb: c", "a\nb", "\u2028"])
def test_a_header_cannot_break_out_of_its_line(value):
    with pytest.raises(ValueError, match=r"line break|latin-1"):
        ResponseEncoder().encode(Response(headers=(("X", value),)), head_of())


def test_remembered_starts_are_bounded():
    encoder = ResponseEncoder()

    for number in range(3 * MAX_CACHED_STARTS):
        encoder.encode(Response(200, b"", f"type/{number}"), head_of())

    assert len(encoder._starts) <= MAX_CACHED_STARTS


@pytest.mark.parametrize(("status", "line"), [(413, "Request Entity Too Large"), (599, "Unknown")])
def test_reasons_are_gos(status, line):
    assert lines_of(ResponseEncoder().encode(Response(status), head_of()))[0] == f"HTTP/1.1 {status} {line}"
