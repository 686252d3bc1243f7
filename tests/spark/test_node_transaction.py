"""A transaction on one node, against one that answers as we like."""

import json
from collections.abc import Iterator

import pyarrow as pa
import pytest

from nsqlake.spark.decisions import StagedPart
from nsqlake.spark.encode import encode_batch
from nsqlake.spark.errors import NodeError, WriteError
from nsqlake.spark.node_transaction import NodeTransaction
from nsqlake.spark.options import Access
from tests.fakes.http_node import DROP, FakeHttpNode, Reply, http_node, json_reply

(MPUB,) = encode_batch(pa.record_batch({"body": pa.array([b"x"])}), "t", 100)
PART = StagedPart("n", 2, 77, 3, 1000)
HELD = {"part": 2, "attempt": 77, "records": 3, "messages": 1000, "bytes": 9}
ACCESS = Access(retries=0, timeout_s=5.0)


@pytest.fixture
def node() -> Iterator[FakeHttpNode]:
    with http_node() as node:
        yield node


def transaction_on(node: FakeHttpNode) -> NodeTransaction:
    return NodeTransaction(node.address, "q.7", ACCESS)


def state(name: str, *parts: dict[str, int]) -> Reply:
    return json_reply({"txn": "q.7", "state": name, "parts": parts})


def test_a_request_is_staged_under_the_next_number_of_its_attempt(node: FakeHttpNode) -> None:
    node.answers["/txn/stage"] = json_reply({"already": False})

    transaction_on(node).stage(PART, MPUB._replace(defer_ms=9))

    assert node.asked[0].params == {
        "txn": "q.7", "part": "2", "attempt": "77", "number": "3", "topic": "t", "defer_ms": "9",
    }  # fmt: skip
    assert node.asked[0].body == MPUB.body


def test_a_commit_names_the_attempts_that_count(node: FakeHttpNode) -> None:
    node.answers["/txn/commit"] = json_reply({"already": True, "messages": 0, "lost": 0})

    transaction_on(node).commit([PART])

    part = {"part": 2, "attempt": 77, "records": 3, "messages": 1000}
    assert json.loads(node.asked[0].body) == {"parts": [part]}


def test_messages_that_a_node_lost_fail_the_batch(node: FakeHttpNode) -> None:
    node.answers["/txn/commit"] = json_reply({"already": False, "messages": 990, "lost": 10})

    with pytest.raises(WriteError, match=r"lost 10 messages of q.7"):
        transaction_on(node).commit([PART])


def test_an_nsqd_without_transactions_is_told_apart(node: FakeHttpNode) -> None:
    with pytest.raises(WriteError) as raised:
        transaction_on(node).stage(PART, MPUB)

    expected = f"node {node.address}: knows no transactions: use delivery=at-least-once"
    assert str(raised.value) == expected


def test_a_request_that_is_refused_names_its_topic(node: FakeHttpNode) -> None:
    node.answers["/txn/stage"] = json_reply({"message": "BAD_MESSAGE", "reason": "too big"}, 413)

    with pytest.raises(WriteError, match="topic t: answered 413 BAD_MESSAGE: too big"):
        transaction_on(node).stage(PART, MPUB)


def test_a_node_that_holds_what_was_staged_can_be_decided_on(node: FakeHttpNode) -> None:
    node.answers["/txn"] = state("open", {**HELD, "attempt": 1}, HELD)

    transaction_on(node).require([PART])


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (state("unknown"), "has lost what q.7 staged: run the batch again"),
        (state("open", {**HELD, "attempt": 78}), "has lost what q.7 staged"),
        (state("open", {**HELD, "messages": 999}), "has lost what q.7 staged"),
        (state("done"), "has published q.7 or a later batch, of which this checkpoint does not know"),
        (state("committed"), "delivery=at-least-once, which publishes the batch again"),
    ],
)
def test_what_cannot_be_decided_on_is_an_error(node: FakeHttpNode, answer: Reply, text: str) -> None:
    node.answers["/txn"] = answer

    with pytest.raises(WriteError, match=text):
        transaction_on(node).require([PART])


@pytest.mark.parametrize("code", ["TXN_NOT_FOUND", "TXN_INCOMPLETE"])
def test_a_node_that_lost_what_was_decided_says_how_to_go_on(node: FakeHttpNode, code: str) -> None:
    node.answers["/txn/commit"] = json_reply({"message": code}, 409)

    with pytest.raises(WriteError, match="start the query once with delivery=at-least-once"):
        transaction_on(node).commit([PART])


def test_other_refusals_of_a_commit_are_passed_on(node: FakeHttpNode) -> None:
    node.answers["/txn/commit"] = json_reply({"message": "FORBIDDEN", "reason": "no"}, 403)

    with pytest.raises(WriteError, match=r"q\.7: answered 403 FORBIDDEN: no"):
        transaction_on(node).commit([PART])


def test_a_node_that_does_not_answer_is_a_node_error(node: FakeHttpNode) -> None:
    node.answers["/txn/stage"] = DROP

    with pytest.raises(NodeError):
        transaction_on(node).stage(PART, MPUB)
