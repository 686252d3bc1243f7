"""`RequestReader`: whole, byte by byte, in random splits, and fed with anything."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nsqlake.runtime.http import HttpError, HttpLimits, Route, Router, text_response
from nsqlake.runtime.http.head import HeadParser
from nsqlake.runtime.http.reader import BodyTooBig, RequestReader

ROUTES = [
    Route("POST", "/pub", lambda _: text_response("OK"), max_body_bytes=100),
    Route("GET", "/ping", lambda _: text_response("OK")),
]
PUB = b"POST /pub?topic=a HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello"
PING = b"GET /ping HTTP/1.1\r\nHost: a\r\n\r\n"
CHUNKED = (
    b"POST /pub HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n"
)
EXPECTING = b"POST /pub HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n"


def new_reader() -> RequestReader:
    return RequestReader(HeadParser(Router(ROUTES), HttpLimits()))


def read_all(reader: RequestReader, pieces: list[bytes]) -> list[tuple[str, str, bytes]]:
    requests = []
    for piece in pieces:
        reader.feed(piece)
        while (head := reader.next_request()) is not None:
            requests.append((head.method, head.target.path, reader.body))
    return requests


def split(data: bytes, chance: random.Random) -> list[bytes]:
    cuts = sorted(chance.randrange(len(data) + 1) for _ in range(chance.randrange(12)))
    return [data[start:end] for start, end in zip([0, *cuts], [*cuts, len(data)], strict=True)]


@pytest.mark.parametrize("seed", range(30))
def test_requests_come_out_the_same_however_they_are_split(seed):
    data = PUB + PING + CHUNKED + b"\r\n" + PUB + PING
    pieces = split(data, random.Random(seed)) if seed else [bytes([byte]) for byte in data]
    reader = new_reader()

    requests = read_all(reader, pieces)

    pub, ping, chunked = (
        ("POST", "/pub", b"hello"),
        ("GET", "/ping", b""),
        ("POST", "/pub", b"abcde"),
    )
    assert requests == [pub, ping, chunked, pub, ping]
    assert reader.is_empty
    assert reader.pending_bytes == 0


def test_a_request_like_one_before_is_taken_whole():
    reader = new_reader()
    read_all(reader, [PUB])
    again = PUB.replace(b"hello", b"there")

    head = reader.take_whole(again)

    assert head is not None
    assert (head.target.path, reader.body) == ("/pub", b"there")


@pytest.mark.parametrize(
    "data", [PUB + b"x", PUB[:-1], PUB + PUB, PING, b"", b"\r\n\r\n", CHUNKED, EXPECTING]
)
def test_anything_else_is_not_taken_whole(data):
    reader = new_reader()
    read_all(reader, [PUB])

    assert reader.take_whole(data) is None


def test_a_chunked_head_is_never_taken_whole():
    reader = new_reader()
    read_all(reader, [CHUNKED])

    assert reader.take_whole(CHUNKED) is None
    assert reader.take_whole(CHUNKED[: CHUNKED.find(b"\r\n\r\n") + 4]) is None


def test_a_body_where_none_belongs_is_read_and_dropped():
    small = b"GET /ping HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello"

    reader = new_reader()

    assert read_all(reader, [small, small]) == [("GET", "/ping", b"")] * 2
    assert reader.take_whole(small) is not None
    assert reader.body == b""


@pytest.mark.parametrize(
    "data",
    [
        b"POST /pub HTTP/1.1\r\nHost: a\r\nContent-Length: 101\r\n\r\n",
        b"POST /pub HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n65\r\n",
        b"GET /ping HTTP/1.1\r\nHost: a\r\nContent-Length: 65537\r\n\r\n",
        b"POST /nope HTTP/1.1\r\nHost: a\r\nContent-Length: 65537\r\n\r\n",
    ],
)
def test_a_body_too_big_is_refused_before_it_comes(data):
    with pytest.raises(BodyTooBig):
        read_all(new_reader(), [data])


def test_a_client_that_waits_for_leave_is_noticed():
    reader = new_reader()

    read_all(reader, [EXPECTING])
    assert reader.awaits_continue

    reader.feed(b"hel")
    assert not reader.awaits_continue
    assert read_all(reader, [b"lo"]) == [("POST", "/pub", b"hello")]


def test_a_client_that_does_not_wait_needs_no_leave():
    reader = new_reader()
    reader.feed(EXPECTING + b"h")

    assert reader.next_request() is None
    assert not reader.awaits_continue


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"GET /ping HTTP/1.1\nHost: a\n\n", 400),
        (b"\n", 400),
        (b"GET /ping HTTP/1.1\r\nHost: a\n", 400),
        (b"GET /" + b"a" * 16_384, 431),
        (b"GET /ping HTTP/1.1\r\nHost: a\r\nX: " + b"a" * 16_384 + b"\r\n\r\n", 431),
    ],
)
@pytest.mark.parametrize("step", [1, 100_000])
def test_what_can_be_no_head_is_refused_at_once(data, status, step):
    pieces = [data[start : start + step] for start in range(0, len(data), step)]

    with pytest.raises(HttpError) as refused:
        read_all(new_reader(), pieces)

    assert refused.value.status == status


def test_an_idle_reader_holds_on_to_nothing():
    reader = new_reader()

    read_all(reader, [PING * 100])

    assert reader._data == b""


@given(st.lists(st.binary(max_size=60) | st.sampled_from([PUB, PING, CHUNKED, PUB[:20], b"\r\n"])))
def test_any_bytes_yield_requests_or_a_refusal(pieces):
    try:
        for method, _, body in read_all(new_reader(), pieces):
            assert method
            assert len(body) <= 100
    except (HttpError, BodyTooBig):
        pass
