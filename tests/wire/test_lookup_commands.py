import json
import struct
import tracemalloc
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nsqlake.wire.errors import ProtocolError, RemoteError, StreamError
from nsqlake.wire.lookup_commands import (
    MAGIC_V1,
    PING,
    LookupdDescription,
    NodeDescription,
    ReplyReader,
    check_reply,
    decode_description,
    encode_reply,
    identify,
    is_unregister,
    register,
    unregister,
)

LIMIT = 4096
NODE = NodeDescription(
    broadcast_address="nsq-1", hostname="host", http_port=4151, tcp_port=4150, version="1.3.0"
)


def test_identify_carries_nsqs_seven_keys_in_nsqs_order() -> None:
    body = (
        b'{"broadcast_address":"nsq-1","hostname":"host","http_port":4151,"tcp_port":4150,'
        b'"topology_region":"","topology_zone":"","version":"1.3.0"}'
    )

    assert identify(NODE) == b"IDENTIFY\n" + struct.pack(">i", len(body)) + body


def test_a_host_name_that_is_not_utf8_is_announced_all_the_same() -> None:
    node = NodeDescription(broadcast_address="a\udcff", hostname="ö", http_port=1, tcp_port=1, version="1")

    command = identify(node)

    assert json.loads(command[len(b"IDENTIFY\n") + 4 :])["hostname"] == "ö"


def test_commands_are_lines() -> None:
    assert MAGIC_V1 + PING == b"  V1PING\n"
    assert register("orders") == b"REGISTER orders\n"
    assert register("orders", "archive#ephemeral") == b"REGISTER orders archive#ephemeral\n"
    assert unregister("orders") == b"UNREGISTER orders\n"
    assert unregister("orders", "archive") == b"UNREGISTER orders archive\n"


def test_unregister_is_told_from_other_commands() -> None:
    assert is_unregister(unregister("orders"))
    assert not is_unregister(register("orders"))


# Replies ----------------------------------------------------------------------------------------------


def cut(data: bytes, cuts: list[int]) -> list[bytes]:
    edges = sorted({0, len(data), *(at % (len(data) + 1) for at in cuts)})
    return [data[begin:end] for begin, end in pairwise(edges)]


@given(st.lists(st.binary(max_size=60), max_size=6), st.lists(st.integers(0, 1000), max_size=12))
def test_replies_do_not_depend_on_how_the_bytes_are_split(payloads: list[bytes], cuts: list[int]) -> None:
    reader = ReplyReader(LIMIT)
    data = b"".join(encode_reply(payload) for payload in payloads)

    assert [reply for piece in cut(data, cuts) for reply in reader.feed(piece)] == payloads


def test_bytes_may_come_one_at_a_time() -> None:
    reader = ReplyReader(LIMIT)

    replies = [reply for byte in encode_reply(b"OK") for reply in reader.feed(bytes([byte]))]

    assert replies == [b"OK"]


def test_a_reply_as_large_as_the_limit_is_read() -> None:
    assert ReplyReader(LIMIT).feed(encode_reply(b"x" * LIMIT)) == [b"x" * LIMIT]


@pytest.mark.parametrize("size", [-1, -(2**31), LIMIT + 1, 2**31 - 1])
def test_a_size_out_of_range_is_refused_before_anything_is_kept(size: int) -> None:
    tracemalloc.start()

    with pytest.raises(StreamError, match=str(size)):
        ReplyReader(LIMIT).feed(struct.pack(">i", size))

    assert tracemalloc.get_traced_memory()[1] < 1_000_000
    tracemalloc.stop()


@given(st.lists(st.binary(max_size=40), max_size=8))
def test_any_bytes_give_replies_or_a_stream_error(pieces: list[bytes]) -> None:
    reader = ReplyReader(LIMIT)
    try:
        replies = [reply for piece in pieces for reply in reader.feed(piece)]
    except StreamError:
        return
    assert sum(4 + len(reply) for reply in replies) <= sum(map(len, pieces))


# What they say ----------------------------------------------------------------------------------------


def test_an_error_is_raised_and_ok_is_not() -> None:
    check_reply(b"OK")

    with pytest.raises(RemoteError) as raised:
        check_reply(b"E_INVALID client must IDENTIFY")

    assert (raised.value.code, raised.value.description) == ("E_INVALID", "client must IDENTIFY")


def test_the_text_of_an_error_is_short_and_printable() -> None:
    with pytest.raises(RemoteError) as raised:
        check_reply(b"E_BAD " + b"\n" * 100_000)

    assert len(str(raised.value)) <= 200
    assert "\n" not in str(raised.value)


def test_the_answer_of_nsqlookupd_to_identify_is_understood() -> None:
    found = decode_description(
        b'{"broadcast_address":"lookup-1","hostname":"h","http_port":4161,"tcp_port":4160,"version":"1.3.0"}'
    )

    assert found == LookupdDescription(
        broadcast_address="lookup-1", http_port=4161, tcp_port=4160, version="1.3.0"
    )
    assert found.has_http


@pytest.mark.parametrize(
    "payload",
    [
        b"{}",
        b"null",
        b'{"broadcast_address":null,"http_port":null}',
        b'{"broadcast_address":"","http_port":4161}',
        b'{"broadcast_address":"host"}',
        b'{"broadcast_address":"host","http_port":0}',
        b'{"broadcast_address":"host","http_port":-1}',
        b'{"broadcast_address":"host","http_port":65536}',
        b'{"broadcast_address":"host/path?","http_port":4161}',
        b'{"broadcast_address":"user@host","http_port":4161}',
    ],
)
def test_a_description_without_a_usable_address_is_tolerated(payload: bytes) -> None:
    assert not decode_description(payload).has_http


@pytest.mark.parametrize(
    "payload",
    [b"", b"OK", b"[]", b"{", b'{"http_port":"4161"}', b'{"broadcast_address":1}', b"\xff", b"[" * 100_000],
)
def test_an_answer_to_identify_that_makes_no_sense_is_an_error(payload: bytes) -> None:
    with pytest.raises(StreamError):
        decode_description(payload)


def test_an_error_as_answer_to_identify_is_that_error() -> None:
    with pytest.raises(RemoteError, match="E_INVALID"):
        decode_description(b"E_INVALID")


@given(
    st.binary(max_size=200)
    | st.recursive(st.none() | st.text(max_size=5), st.lists).map(
        lambda value: json.dumps({"http_port": value, "version": value}).encode()
    )
)
def test_any_answer_to_identify_gives_a_description_or_an_error(payload: bytes) -> None:
    try:
        found = decode_description(payload)
    except ProtocolError:
        return
    assert isinstance(found, LookupdDescription)
