"""`HeadParser`: strict where two servers might read a head differently."""

from time import process_time

import pytest

from nsqlake.runtime.http import HttpError, HttpLimits, Route, Router, text_response
from nsqlake.runtime.http.head import CHUNKED, MAX_CACHED_HEADS, HeadParser, RequestHead

ROUTES = [Route("POST", "/pub", lambda _: text_response("OK"), max_body_bytes=100)]


def parser(limits: HttpLimits | None = None) -> HeadParser:
    return HeadParser(Router(ROUTES), limits or HttpLimits())


def parse(*lines: bytes, line: bytes = b"POST /pub HTTP/1.1", host: bool = True) -> RequestHead:
    fields = [b"Host: a", *lines] if host else lines
    return parser().parse(b"\r\n".join([line, *fields]) + b"\r\n\r\n")


def test_headers_have_lower_case_names_and_repeated_ones_are_joined():
    head = parse(b"X-A:  one \t", b"x-a:two", b"Empty:", b"Latin: \xe9")

    assert head.headers == {"host": "a", "x-a": "one, two", "empty": "", "latin": "\xe9"}


@pytest.mark.parametrize(
    "lines",
    [
        [b"A : b"],
        [b" A: b"],
        [b"A: b", b" folded"],
        [b"A: b", b"\tfolded"],
        [b"A: b\nB: c"],
        [b"A: b\rc"],
        [b"A: b\x00"],
        [b"A: b\x7f"],
        [b"A\xe9: b"],
        [b"A"],
        [b": b"],
        [b"Host: b"],
        [b"Content-Length: 1", b"Content-Length: 1"],
        [b"Content-Length: 1", b"Transfer-Encoding: chunked"],
        [b"Transfer-Encoding: chunked", b"Transfer-Encoding: chunked"],
        [b"Content-Length: 1, 1"],
        [b"Content-Length: +1"],
        [b"Content-Length: -1"],
        [b"Content-Length: 0x1"],
        [b"Content-Length: 1_0"],
        [b"Content-Length: \xb2"],
        [b"Content-Length: "],
        [b"Content-Length: " + b"9" * 19],
    ],
)
def test_fields_that_could_be_read_in_two_ways_are_refused(lines):
    with pytest.raises(HttpError) as refused:
        parse(*lines)

    assert (refused.value.status, refused.value.code) == (400, "BAD_REQUEST")


@pytest.mark.parametrize(
    ("line", "status"),
    [
        (b"POST /pub", 400),
        (b"POST  /pub HTTP/1.1", 400),
        (b"POST /pub  HTTP/1.1", 400),
        (b"POST /p b HTTP/1.1", 400),
        (b"POST /pub HTTP/1.1 ", 400),
        (b"POST /pub http/1.1", 400),
        (b"POST /pub HTTP/1.10", 400),
        (b"P(ST /pub HTTP/1.1", 400),
        (b"X" * 33 + b" /pub HTTP/1.1", 400),
        (b"POST /\x00 HTTP/1.1", 400),
        (b"PRI * HTTP/2.0", 505),
        (b"GET / HTTP/0.9", 505),
        (b"GET /" + b"a" * 8_192 + b" HTTP/1.1", 414),
    ],
)
def test_request_lines_are_read_strictly(line, status):
    with pytest.raises(HttpError) as refused:
        parse(line=line)

    assert refused.value.status == status


def test_http_1_1_needs_a_host_and_1_0_does_not():
    assert parse(line=b"POST /pub HTTP/1.0", host=False).is_http_10
    with pytest.raises(HttpError, match="BAD_REQUEST"):
        parse(host=False)


def test_one_header_too_many_is_refused():
    parse(*[b"A: b"] * 99)
    with pytest.raises(HttpError, match="431 HEADERS_TOO_BIG"):
        parse(*[b"A: b"] * 100)


@pytest.mark.parametrize(
    ("version", "lines", "keeps_alive"),
    [
        (b"1.1", [], True),
        (b"1.1", [b"Connection: close"], False),
        (b"1.1", [b"Connection: X, Close"], False),
        (b"1.1", [b"Connection: Upgrade", b"Upgrade: h2c"], True),
        (b"1.0", [], False),
        (b"1.0", [b"Connection: Keep-Alive"], True),
        (b"1.0", [b"Connection: keep-alive, close"], False),
    ],
)
def test_the_client_says_whether_the_connection_stays(version, lines, keeps_alive):
    assert parse(*lines, line=b"POST /pub HTTP/" + version).keeps_alive is keeps_alive


@pytest.mark.parametrize(
    ("lines", "length"),
    [([], 0), ([b"Content-Length: 007"], 7), ([b"Transfer-Encoding: Chunked"], CHUNKED)],
)
def test_the_length_of_the_body_is_told(lines, length):
    assert parse(*lines).content_length == length


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ([b"Transfer-Encoding: gzip, chunked"], 501),
        ([b"Transfer-Encoding: identity"], 501),
        ([b"Expect: 200-ok"], 417),
    ],
)
def test_what_is_not_offered_is_refused(fields, status):
    with pytest.raises(HttpError) as refused:
        parse(*fields)

    assert refused.value.status == status


def test_chunks_are_not_for_http_1_0():
    with pytest.raises(HttpError, match="BAD_REQUEST"):
        parse(b"Transfer-Encoding: chunked", line=b"POST /pub HTTP/1.0")


def test_expectations_of_http_1_0_are_ignored():
    assert parse(b"Expect: 100-Continue").expects_continue
    assert not parse(b"Expect: 100-continue", line=b"POST /pub HTTP/1.0").expects_continue


def test_small_heads_are_remembered_in_bounds():
    heads = parser()
    data = b"POST /pub HTTP/1.1\r\nHost: a\r\nX: %d\r\n\r\n"

    first = heads.parse(data % 0)
    assert heads.known[data % 0] is first
    for number in range(3 * MAX_CACHED_HEADS):
        heads.parse(data % number)

    assert len(heads.known) <= MAX_CACHED_HEADS


@pytest.mark.parametrize("field", [b"X: " + b"x" * 1_024, b"Expect: 100-continue", b"Content-Length: 101"])
def test_heads_that_are_long_or_special_are_not_remembered(field):
    heads = parser()

    heads.parse(b"POST /pub HTTP/1.1\r\nHost: a\r\n" + field + b"\r\n\r\n")

    assert heads.known == {}


def test_blanks_in_a_long_value_cost_no_more_than_other_characters():
    blanks = b"A: x" + b" " * 16_000 + b"x"
    started = process_time()

    head = parse(blanks)

    assert process_time() - started < 0.1
    assert len(head.headers["a"]) == 16_002
