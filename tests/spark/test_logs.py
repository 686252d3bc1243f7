"""What is asked of the nodes, and how much of it."""

from collections.abc import Iterator

import pytest

from nsqlake.spark.errors import NodeError, OptionError
from nsqlake.spark.logs import FIRST_SPAN, SPAN_GROWTH, Logs, require_topics
from nsqlake.spark.offsets import LogBounds, LogPosition, SourceKey
from nsqlake.spark.options import parse_read
from tests.fakes.http_node import FakeHttpNode, Reply, http_node, json_reply

LOG = "f00d"
HUGE = 1 << 40


@pytest.fixture
def node() -> Iterator[FakeHttpNode]:
    with http_node() as node:
        node.answers["/log/offsets"] = json_reply({"uuid": LOG, "first": 1, "next": 5})
        yield node


def logs(node: FakeHttpNode, **options: str) -> Logs:
    return Logs(parse_read({"nsqd": node.address, "retries": "0", **options}, streaming=True))


def test_a_pattern_is_for_whole_names_and_leaves_ephemeral_topics_out(node: FakeHttpNode) -> None:
    names = ["dns_a", "dns_b", "my_dns_c", "dns_x#ephemeral"]
    node.answers["/stats"] = json_reply({"topics": [{"topic_name": name} for name in names]})
    node.answers["/log/offsets"] = [json_reply({"uuid": text, "first": 1, "next": 5}) for text in ("a", "b")]

    survey = logs(node, topicPattern="dns_.*").survey()

    assert survey.nodes == {node.address}
    assert survey.bounds == {
        SourceKey("dns_a", node.address): LogBounds("a", 1, 5),
        SourceKey("dns_b", node.address): LogBounds("b", 1, 5),
    }


@pytest.mark.parametrize("junk", [[], {}, {"topics": [{}]}])
def test_junk_instead_of_statistics_names_the_node(node: FakeHttpNode, junk: object) -> None:
    node.answers["/stats"] = json_reply(junk)

    with pytest.raises(NodeError, match=f"node {node.address}: gave an answer that is not an nsqd's"):
        logs(node, topicPattern=".*").survey()


def sizes_up_to(node: FakeHttpNode, end: int, **limits: int | None) -> int:
    asker = logs(node, topic="t")
    both = {"messages": None, "nbytes": None, **limits}
    found = asker.sizes_up_to(SourceKey("t", node.address), LogPosition(0, LOG), end, **both)
    return found.messages


def asked_ends(node: FakeHttpNode) -> list[int]:
    return [int(asked.params["end"]) for asked in node.asked]


def marks(*found: tuple[int, int, int]) -> Reply:
    return json_reply({"uuid": LOG, "marks": [list(mark) for mark in found]})


def test_a_huge_log_is_measured_only_as_far_as_a_limit_needs(node: FakeHttpNode) -> None:
    node.answers["/log/index"] = marks((FIRST_SPAN, 1000, 500))

    assert sizes_up_to(node, HUGE, messages=100) == 500
    assert sizes_up_to(node, HUGE, nbytes=999) == 500
    assert asked_ends(node) == [FIRST_SPAN, FIRST_SPAN]


def test_where_there_is_too_little_more_is_measured(node: FakeHttpNode) -> None:
    node.answers["/log/index"] = [
        marks((FIRST_SPAN, 0, 0)),
        marks((FIRST_SPAN * SPAN_GROWTH, 1000, 500)),
    ]

    assert sizes_up_to(node, HUGE, messages=100) == 500
    assert asked_ends(node) == [FIRST_SPAN, FIRST_SPAN * SPAN_GROWTH]


def test_the_end_of_the_log_is_the_end(node: FakeHttpNode) -> None:
    node.answers["/log/index"] = marks((1000, 1000, 50))

    assert sizes_up_to(node, 1000, messages=100, nbytes=5000) == 50
    assert asked_ends(node) == [1000]


def test_a_large_limit_is_measured_in_one_go(node: FakeHttpNode) -> None:
    node.answers["/log/index"] = marks((10**8, 10**9, 10**8))

    sizes_up_to(node, HUGE, messages=10**7)

    assert asked_ends(node) == [2 * 10**7]


def test_topics_of_a_batch_have_to_be_there() -> None:
    named = parse_read({"nsqd": "n", "topics": "a,b"}, streaming=False)
    matched = parse_read({"nsqd": "n", "topicPattern": "a.*"}, streaming=False)
    there = [SourceKey("a", "n:4151")]

    require_topics(there, matched)
    with pytest.raises(OptionError, match="option topics 'b': is on none of the nodes"):
        require_topics(there, named)
    with pytest.raises(OptionError, match=r"option topicPattern 'a\.\*': matches no topic"):
        require_topics([], matched)
