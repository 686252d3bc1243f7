"""Which nodes there are."""

import pytest

from nsqlake.spark.errors import NodeError
from nsqlake.spark.nodes import ask_each, find_nodes
from nsqlake.spark.options import Access
from tests.fakes.http_node import http_node, json_reply

NOWHERE = "127.0.0.1:1"


def producer(host: str, port: int) -> dict[str, object]:
    return {"broadcast_address": host, "http_port": port, "tcp_port": 4150, "topics": []}


def access(*lookupd: str) -> Access:
    return Access(lookupd=lookupd, retries=0, timeout_s=5)


def test_nodes_that_are_named_are_not_asked() -> None:
    assert find_nodes(Access(nsqd=("b:1", "a:1"))) == ["b:1", "a:1"]


def test_nodes_of_all_lookupds_are_found_once() -> None:
    with http_node() as one, http_node() as other:
        one.answers["/nodes"] = json_reply({"producers": [producer("n2", 2), producer("n1", 1)]})
        other.answers["/nodes"] = json_reply({"producers": [producer("n1", 1), producer("::1", 3)]})

        assert find_nodes(access(one.address, other.address)) == ["[::1]:3", "n1:1", "n2:2"]


def test_a_lookupd_that_is_down_does_not_matter_while_another_answers() -> None:
    with http_node() as one:
        one.answers["/nodes"] = json_reply({"producers": [producer("n1", 1)]})

        assert find_nodes(access(NOWHERE, one.address)) == ["n1:1"]


def test_without_any_lookupd_there_is_an_error() -> None:
    with pytest.raises(NodeError, match=r"node 127\.0\.0\.1:1: /nodes failed 1 times"):
        find_nodes(access(NOWHERE))


@pytest.mark.parametrize(
    "junk", [[], {"nodes": []}, {"producers": [{}]}, {"producers": [producer("n", "x")]}]
)  # type: ignore[arg-type]
def test_junk_is_not_taken_for_a_lookupd(junk: object) -> None:
    with http_node() as one:
        one.answers["/nodes"] = json_reply(junk)

        with pytest.raises(NodeError, match="gave an answer that is not an nsqlookupd's"):
            find_nodes(access(one.address))


def test_a_cluster_without_nodes_is_an_error() -> None:
    with http_node() as one:
        one.answers["/nodes"] = json_reply({"producers": []})

        with pytest.raises(NodeError, match=f"node {one.address}: knows no nsqd"):
            find_nodes(access(one.address))


def test_the_first_failure_is_raised_when_all_are_asked() -> None:
    def question(node: str) -> int:
        if node == "bad":
            raise NodeError(node, "is bad")
        return len(node)

    assert ask_each(["a", "bb"], question) == {"a": 1, "bb": 2}
    assert ask_each([], question) == {}
    with pytest.raises(NodeError, match="node bad: is bad"):
        ask_each(["a", "bad", "c"], question)
