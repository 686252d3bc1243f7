import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nsqlake.cluster.decoding import decode_answer
from nsqlake.cluster.lookupd_answers import LookupAnswer, NodesAnswer, TopicsAnswer
from nsqlake.cluster.nsqd_answers import NsqdStats

PRODUCER = {"broadcast_address": "h1", "tcp_port": 4150, "http_port": 4151, "hostname": "one"}


def encode(value: object) -> bytes:
    return json.dumps(value).encode()


def test_flat_answer_is_read() -> None:
    answer = decode_answer(encode({"channels": ["c"], "producers": [PRODUCER]}), LookupAnswer, is_flat=True)

    assert answer.channels == ["c"]
    assert answer.producers[0].tcp_address == "h1:4150"


def test_answer_of_a_server_before_1_0_is_unwrapped() -> None:
    wrapped = {"status_code": 200, "status_txt": "OK", "data": {"channels": [], "producers": [PRODUCER]}}

    assert decode_answer(encode(wrapped), LookupAnswer).producers[0].http_address == "h1:4151"


def test_flat_answer_is_read_also_without_the_header_that_says_so() -> None:
    assert decode_answer(encode({"topics": ["a"]}), TopicsAnswer).topics == ["a"]


def test_error_in_a_wrapping_is_an_error() -> None:
    wrapped = {"status_code": 500, "status_txt": "INVALID_ARG_TOPIC", "data": None}

    with pytest.raises(ValueError, match="status 500 INVALID_ARG_TOPIC"):
        decode_answer(encode(wrapped), LookupAnswer)


def test_unknown_fields_are_skipped_and_missing_ones_have_defaults() -> None:
    stats = decode_answer(
        encode({"topics": [{"topic_name": "t", "new": {}, "channels": [{"channel_name": "c"}]}], "new": 1}),
        NsqdStats,
    )

    channel = stats.channel("t", "c")
    assert channel is not None
    assert (channel.depth, channel.clients, channel.paused) == (0, [], False)


def test_null_stands_for_an_empty_list() -> None:
    body = encode({"topics": [{"topic_name": "t", "channels": None}]})

    assert decode_answer(body, NsqdStats).topics[0].channels == []
    assert decode_answer(encode({"producers": None}), LookupAnswer).producers == []


def test_node_without_tombstones_has_none() -> None:
    body = encode({"producers": [PRODUCER | {"topics": ["a", "b"], "tombstones": [True]}, PRODUCER]})

    nodes = decode_answer(body, NodesAnswer).producers

    assert nodes[0].tombstoned_topics == [("a", True), ("b", False)]
    assert nodes[1].tombstoned_topics == []


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"OK",
        b"[]",
        b"null",
        b"{}",
        b'{"message":"x"}',
        b'{"producers":[{"tcp_port":"1"}]}',
        b'{"producers":' + b"[" * 100_000,
        b'{"producers":[{"hostname":"\xff"}]}',
    ],
)
def test_what_does_not_answer_the_question_is_an_error(body: bytes) -> None:
    with pytest.raises(ValueError, match="invalid answer"):
        decode_answer(body, LookupAnswer)


@given(
    st.binary(max_size=40)
    | st.dictionaries(st.sampled_from(["topics", "data"]), st.none() | st.text()).map(encode)
)
def test_any_bytes_are_an_answer_or_an_error_that_can_be_printed(body: bytes) -> None:
    text = ""
    try:
        decode_answer(body, NsqdStats)
    except ValueError as error:
        text = str(error)

    assert text.isprintable()
