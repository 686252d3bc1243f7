"""`decode_lines` and `decode_binary`."""

import itertools
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nsqlake.wire.command_reader import Messages
from nsqlake.wire.errors import ClientError
from nsqlake.wire.mpub_bodies import MessageTooBigError, decode_binary, decode_lines

SIZE = struct.Struct(">i")


def bodies_of(messages: Messages) -> list[bytes]:
    starts = messages.starts or [messages.record_size * number for number in range(messages.count + 1)]
    records = [messages.records[a:b] for a, b in itertools.pairwise(starts)]
    assert starts[-1] == len(messages.records)
    assert [SIZE.unpack_from(record)[0] for record in records] == [len(record) - 4 for record in records]
    return [record[4:] for record in records]


def binary(bodies: list[bytes]) -> bytes:
    return SIZE.pack(len(bodies)) + b"".join(SIZE.pack(len(body)) + body for body in bodies)


def decode(body: bytes, max_msg_size: int = 100) -> Messages:
    return decode_binary(body, max_msg_size=max_msg_size, max_body_size=1_000)


@given(st.lists(st.binary(max_size=9)))
def test_lines_are_what_stands_between_newlines(lines: list[bytes]) -> None:
    body = b"\n".join(lines)

    messages = decode_lines(body, max_msg_size=1_000)

    expected = [line for line in body.split(b"\n") if line]
    assert (bodies_of(messages) if messages else []) == expected


@given(
    st.lists(st.text("ab\n", min_size=3, max_size=3).map(str.encode), min_size=1),
    st.sampled_from([b"", b"\n"]),
)
def test_what_looks_like_lines_of_one_size_may_hold_more(lines: list[bytes], end: bytes) -> None:
    body = b"\n".join(lines) + end

    messages = decode_lines(body, max_msg_size=3)

    expected = [line for line in body.split(b"\n") if line]
    assert (bodies_of(messages) if messages else []) == expected


def test_lines_of_one_size_are_known_to_be_so() -> None:
    messages = decode_lines(b"ab\ncd\n\nef", max_msg_size=2)

    assert messages is not None
    assert (messages.count, messages.record_size, messages.starts) == (3, 6, None)


def test_a_line_that_is_too_long_is_refused_with_its_size() -> None:
    with pytest.raises(MessageTooBigError) as caught:
        decode_lines(b"ab\nabc", max_msg_size=2)

    assert (caught.value.size, caught.value.limit) == (3, 2)


@given(st.lists(st.binary(min_size=1, max_size=5), min_size=1, max_size=20), st.binary(max_size=9))
def test_binary_messages_come_out_as_they_went_in(bodies: list[bytes], trailing: bytes) -> None:
    assert bodies_of(decode(binary(bodies) + trailing)) == bodies


@given(st.binary(max_size=40))
def test_any_bytes_are_messages_or_a_client_error(body: bytes) -> None:
    try:
        messages = decode(body)
    except ClientError:
        return
    assert len(bodies_of(messages)) == messages.count > 0


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (b"abc", "E_BAD_BODY MPUB failed to read message count"),
        (SIZE.pack(0), "E_BAD_BODY MPUB invalid message count 0"),
        (SIZE.pack(200), "E_BAD_BODY MPUB invalid message count 200"),
        (SIZE.pack(1), "E_BAD_MESSAGE MPUB failed to read message(0) body size"),
        (binary([b"a", b""]), "E_BAD_MESSAGE MPUB invalid message(1) body size 0"),
        (binary([b"a", b"x" * 101]), "E_BAD_MESSAGE MPUB message too big 101 > 100"),
        (binary([b"a", b"bc"])[:-1], "E_BAD_MESSAGE MPUB failed to read message body"),
    ],
)
def test_what_is_wrong_with_a_binary_body_is_said(body: bytes, text: str) -> None:
    with pytest.raises(ClientError) as caught:
        decode(body)

    assert str(caught.value) == text
