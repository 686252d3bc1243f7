"""Protocol V1 as nsqlookupd reads it."""

import json
import random
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nsqlake.wire.errors import ClientError
from nsqlake.wire.lookup_commands import NodeDescription
from nsqlake.wire.lookup_requests import (
    MAX_FIELD_CHARACTERS,
    MAX_IDENTIFY_BYTES,
    MAX_LINE_BYTES,
    RequestReader,
    decode_node,
    parse_names,
    split_line,
)

NODE = {"broadcast_address": "h", "tcp_port": 1, "http_port": 2, "version": "v"}


def refusal(body: bytes) -> str:
    with pytest.raises(ClientError) as caught:
        decode_node(body)
    return str(caught.value)


def node(**fields: object) -> bytes:
    return json.dumps({**NODE, **fields}).encode()


# Reading ----------------------------------------------------------------------------------------------


def test_magic_lines_and_bodies_come_out_however_the_bytes_are_split() -> None:
    stream = b"  V1PING\nIDENTIFY\n" + struct.pack(">i", 5) + b"a\nb\nc" + b"REGISTER t c\n\n"
    rng = random.Random(4)
    for _ in range(50):
        reader, taken = RequestReader(), []
        steps = iter(["magic", "line", "line", "body", "line", "line", "line"])
        step, position = next(steps), 0
        while position < len(stream):
            size = rng.randint(1, 9)
            reader.feed(stream[position : position + size])
            position += size
            while (item := getattr(reader, f"take_{step}")()) is not None:
                taken.append(item)
                step = next(steps)

        assert taken == [b"  V1", b"PING", b"IDENTIFY", b"a\nb\nc", b"REGISTER t c", b""]
        assert reader.pending_bytes == 0


def test_a_line_may_have_as_many_bytes_as_the_limit() -> None:
    reader = RequestReader()
    reader.feed(b"x" * (MAX_LINE_BYTES - 1))
    assert reader.take_line() is None

    reader.feed(b"\n")

    assert reader.take_line() == b"x" * (MAX_LINE_BYTES - 1)


@pytest.mark.parametrize("end", [b"", b"\n"])
def test_a_longer_line_is_refused_before_its_end_comes(end: bytes) -> None:
    reader = RequestReader()
    reader.feed(b"x" * MAX_LINE_BYTES + end)

    with pytest.raises(ClientError, match="E_INVALID line is longer than 16384 bytes"):
        reader.take_line()


@pytest.mark.parametrize("size", [-1, -(2**31), MAX_IDENTIFY_BYTES + 1, 2**31 - 1])
def test_a_size_that_cannot_be_is_refused_before_its_body_comes(size: int) -> None:
    reader = RequestReader()
    reader.feed(struct.pack(">i", size))

    with pytest.raises(ClientError, match="E_BAD_BODY IDENTIFY failed to read body size"):
        reader.take_body()


def test_the_largest_body_is_taken() -> None:
    reader = RequestReader()
    reader.feed(struct.pack(">i", MAX_IDENTIFY_BYTES))
    reader.feed(b"x" * MAX_IDENTIFY_BYTES)

    assert reader.take_body() == b"x" * MAX_IDENTIFY_BYTES


@pytest.mark.parametrize(
    ("received", "missing"),
    [(b"", "body size"), (b"\0\0\0", "body size"), (b"\0\0\0\5abcd", "body")],
)
def test_what_is_missing_at_the_end_is_named(received: bytes, missing: str) -> None:
    reader = RequestReader()
    reader.feed(received)

    assert reader.take_body() is None
    assert str(reader.broken_body()) == f"E_BAD_BODY IDENTIFY failed to read {missing}"


# Lines ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (b"PING", [b"PING"]),
        (b"  PING  \r", [b"PING"]),
        (b"\tPING", [b"PING"]),
        (b"REGISTER  ch", [b"REGISTER", b"", b"ch"]),
        (b"", [b""]),
    ],
)
def test_lines_are_split_at_single_spaces(line: bytes, words: list[bytes]) -> None:
    assert split_line(line) == words


@pytest.mark.parametrize(
    ("line", "names"),
    [
        (b"REGISTER t", ("t", "")),
        (b"REGISTER t c", ("t", "c")),
        (b"REGISTER t  c", ("t", "")),
        (b"REGISTER t c extra", ("t", "c")),
        (b"UNREGISTER t#ephemeral c#ephemeral", ("t#ephemeral", "c#ephemeral")),
    ],
)
def test_names_of_a_command(line: bytes, names: tuple[str, str]) -> None:
    assert parse_names(split_line(line)) == names


@pytest.mark.parametrize(
    ("line", "text"),
    [
        (b"REGISTER", "E_INVALID REGISTER insufficient number of params"),
        (b"UNREGISTER ", "E_INVALID UNREGISTER insufficient number of params"),
        (b"REGISTER  ch", "E_BAD_TOPIC REGISTER topic name '' is not valid"),
        (b"UNREGISTER t*", "E_BAD_TOPIC UNREGISTER topic name 't*' is not valid"),
        (b"REGISTER t c!", "E_BAD_CHANNEL REGISTER channel name 'c!' is not valid"),
        (b"REGISTER \xff\x00", "E_BAD_TOPIC REGISTER topic name '\\xff\\x00' is not valid"),
        (b"REGISTER " + b"x" * 5000, f"E_BAD_TOPIC REGISTER topic name '{'x' * 64}' is not valid"),
    ],
)
def test_names_that_break_the_rule_are_refused_and_shown_escaped_and_cut(line: bytes, text: str) -> None:
    with pytest.raises(ClientError) as caught:
        parse_names(split_line(line))

    assert str(caught.value) == text


# IDENTIFY ---------------------------------------------------------------------------------------------


def test_every_field_is_decoded() -> None:
    found = decode_node(
        node(hostname="n", topology_region="r", topology_zone="z", remote_address="1.2.3.4:5")
    )

    assert found == NodeDescription(
        broadcast_address="h", hostname="n", tcp_port=1, http_port=2, version="v",
        topology_region="r", topology_zone="z",
    )  # fmt: skip


def test_what_may_be_missing_is_empty() -> None:
    found = decode_node(node())

    assert (found.hostname, found.topology_region, found.topology_zone) == ("", "", "")


def test_keys_are_known_in_any_case() -> None:
    body = b'{"BROADCAST_ADDRESS":"h","Tcp_Port":-1,"http_PORT":99999999,"Version":"v"}'

    assert (decode_node(body).tcp_port, decode_node(body).http_port) == (-1, 99_999_999)


@pytest.mark.parametrize(
    "body",
    [
        b"", b"[]", b"{a}", b"7", b"\xff", b"[" * 100_000, node() + b"x", node(version=7),
        node(tcp_port="1"), node(tcp_port=1.5), node(tcp_port=100.0), node(tcp_port=2**63),
    ],
)  # fmt: skip
def test_what_is_no_such_object_is_refused(body: bytes) -> None:
    assert refusal(body) == "E_BAD_BODY IDENTIFY failed to decode JSON body"


@pytest.mark.parametrize("body", [b"null", b"{}", *(node(**{name: None}) for name in NODE), node(tcp_port=0)])
def test_what_lacks_a_field_is_refused(body: bytes) -> None:
    assert refusal(body) == "E_BAD_BODY IDENTIFY missing fields"


def test_fields_that_would_make_every_answer_large_are_refused() -> None:
    assert decode_node(node(hostname="x" * MAX_FIELD_CHARACTERS)).hostname

    text = "E_BAD_BODY IDENTIFY hostname is longer than 256 characters"
    assert refusal(node(hostname="x" * (MAX_FIELD_CHARACTERS + 1))) == text


@given(st.binary(max_size=200) | st.text(max_size=50).map(lambda text: node(version=text)))
def test_any_body_is_a_node_or_a_refusal(body: bytes) -> None:
    try:
        assert decode_node(body).version
    except ClientError:
        return
