"""`ChunkedBody`."""

import pytest

from nsqlake.runtime.http import HttpError
from nsqlake.runtime.http.chunked import MAX_LINE_BYTES, MAX_TRAILERS, TURN_LINES, ChunkedBody

WHOLE = b"3\r\nabc\r\n0A;name=value\r\n0123456789\r\n0\r\nTrailer: x\r\n\r\n"


def feed(data: bytes, step: int, limit_bytes: int = 100) -> tuple[ChunkedBody, int]:
    """As the reader does: what was not taken comes again."""
    body, rest, taken = ChunkedBody(limit_bytes), b"", 0
    for start in range(0, len(data), step):
        rest += data[start : start + step]
        at = body.feed(rest, 0)
        rest, taken = rest[at:], taken + at
    return body, taken


@pytest.mark.parametrize("step", [1, 2, 3, 7, 1_000])
def test_chunks_are_joined_and_what_follows_is_left(step):
    body, taken = feed(WHOLE + b"POST /next", step)

    assert (body.is_done, bytes(body.body), taken) == (True, b"abc0123456789", len(WHOLE))


@pytest.mark.parametrize(
    "data",
    [
        b"\r\n",
        b"x\r\n",
        b"-1\r\n",
        b"+1\r\n",
        b"0x1\r\n",
        b" 1\r\n",
        b"1 \r\n",
        b"1_0\r\n",
        b"1\nab",
        b"\n",
        b"3\r\nabcd\r\n",
        b"3\r\nabc\n",
        b"1" * 17 + b"\r\n",
        b"1;" + b"x" * MAX_LINE_BYTES,
        b"0\r\nno colon\r\n",
        b"0\r\n folded: x\r\n",
        b"0\r\n" + b"a: b\r\n" * (MAX_TRAILERS + 1),
    ],
)
@pytest.mark.parametrize("step", [1, 1_000_000])
def test_malformed_chunks_are_refused(data, step):
    with pytest.raises(HttpError, match="400 BAD_REQUEST"):
        feed(data, step)


def test_a_chunk_over_the_limit_is_known_before_it_is_read():
    body, _ = feed(b"32\r\n" + b"x" * 50 + b"\r\n33\r\n", 1_000)

    assert body.is_too_big
    assert len(body.body) == 50


def test_a_body_may_be_as_big_as_the_limit():
    body, _ = feed(b"64\r\n" + b"x" * 100 + b"\r\n0\r\n\r\n", 9)

    assert body.is_done
    assert not body.is_too_big


def test_many_tiny_chunks_are_taken_in_turns():
    body, data = ChunkedBody(10_000), b"1\r\nx\r\n" * 5_000 + b"0\r\n\r\n"

    at = body.feed(data, 0)
    assert (body.has_more, at) == (True, 3 * TURN_LINES)
    while body.has_more:
        at = body.feed(data, at)

    assert (body.is_done, len(body.body), at) == (True, 5_000, len(data))
