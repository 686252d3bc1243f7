"""The driver's side of exactly once: what is decided is told to every node, however often it takes."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from nsqlake.spark.decisions import Decision, DecisionFile, StagedPart
from nsqlake.spark.errors import WriteError
from nsqlake.spark.options import EXACTLY_ONCE, Access, WriteOptions
from nsqlake.spark.stream_writer import NsqStreamWriter, StagedMessage
from tests.fakes.http_node import FakeHttpNode, Reply, http_node, json_reply

COMMITTED = json_reply({"already": False, "messages": 1, "lost": 0})
BROKEN = json_reply({"message": "TOPIC_BROKEN"}, 503)
TXN = "query.3"


class Cluster:
    """Two nodes that hold what two tasks have staged."""

    def __init__(self, nodes: list[FakeHttpNode], checkpoint: Path) -> None:
        self.nodes, self.checkpoint = nodes, checkpoint
        self.parts = [StagedPart(node.address, i, 40 + i, 1, 10) for i, node in enumerate(nodes)]
        for node, part in zip(nodes, self.parts, strict=True):
            self.holds(node, part)
            node.answers["/txn/commit"] = COMMITTED
            node.answers["/txn/abort"] = Reply()

    def holds(self, node: FakeHttpNode, *parts: StagedPart) -> None:
        node.answers["/txn"] = json_reply({"state": "open", "parts": [vars(part) for part in parts]})

    def writer(self) -> NsqStreamWriter:
        """As the data source makes it, every time anew."""
        addresses = [node.address for node in self.nodes]
        access = Access(nsqd=tuple(addresses), timeout_s=5.0, retries=0)
        decision = self.decision
        options = WriteOptions(access, "t", EXACTLY_ONCE, str(self.checkpoint))
        return NsqStreamWriter(options, addresses, "" if decision is None else decision.txn)

    @property
    def messages(self) -> list[StagedMessage | None]:
        return [StagedMessage(TXN, part) for part in self.parts]

    @property
    def decision(self) -> Decision | None:
        return DecisionFile(str(self.checkpoint)).read()

    def commits(self) -> list[list[dict[str, int]]]:
        return [
            [json.loads(asked.body)["parts"][0] for asked in node.asked if asked.path == "/txn/commit"]
            for node in self.nodes
        ]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with http_node() as one, http_node() as other:
        yield Cluster([one, other], tmp_path)


def chosen(part: StagedPart) -> dict[str, int]:
    return {key: value for key, value in vars(part).items() if key != "node"}


def test_the_decision_is_written_and_every_node_is_told(cluster: Cluster) -> None:
    cluster.writer().commit([*cluster.messages, StagedMessage(TXN, None)], 3)

    assert cluster.decision == Decision(TXN, tuple(cluster.parts))
    assert cluster.commits() == [[chosen(part)] for part in cluster.parts]


def test_nothing_is_decided_when_a_node_does_not_hold_its_part(cluster: Cluster) -> None:
    cluster.holds(cluster.nodes[1])

    with pytest.raises(WriteError, match=f"node {cluster.nodes[1].address}: has lost"):
        cluster.writer().commit(cluster.messages, 3)

    assert cluster.decision is None
    assert cluster.commits() == [[], []]


def test_a_commit_that_fails_on_one_node_is_completed_by_the_next_run(cluster: Cluster) -> None:
    cluster.nodes[1].answers["/txn/commit"] = [BROKEN, COMMITTED]
    with pytest.raises(WriteError, match=f"node {cluster.nodes[1].address}: .*TOPIC_BROKEN"):
        cluster.writer().commit(cluster.messages, 3)
    cluster.writer().abort(cluster.messages, 3)

    cluster.writer().commit([StagedMessage(TXN, None)] * 5, 3)  # cut into other partitions, not staged

    assert cluster.commits() == [[chosen(part)] * 2 for part in cluster.parts]
    assert not [asked for node in cluster.nodes for asked in node.asked if asked.path == "/txn/abort"]


def test_a_decided_batch_that_has_other_rows_now_is_logged(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    cluster.writer().commit(cluster.messages, 3)

    cluster.writer().commit([StagedMessage(TXN, ignored_rows=15), StagedMessage(TXN, ignored_rows=5)], 3)
    assert not caplog.messages
    cluster.writer().commit([StagedMessage(TXN, ignored_rows=21)], 3)

    assert caplog.messages == [
        "SINK(query.3): has other rows than when it was published, which are ignored messages=20 rows=21"
    ]


def test_every_node_is_told_even_if_one_fails_and_all_that_fail_are_named(cluster: Cluster) -> None:
    for node in cluster.nodes:
        node.answers["/txn/commit"] = BROKEN

    with pytest.raises(WriteError) as raised:
        cluster.writer().commit(cluster.messages, 3)

    assert all(f"node {node.address}: " in str(raised.value) for node in cluster.nodes)
    assert [len(commits) for commits in cluster.commits()] == [1, 1]


def test_a_batch_without_rows_decides_nothing(cluster: Cluster) -> None:
    cluster.writer().commit([StagedMessage(TXN, None)], 3)
    cluster.writer().commit([], 3)

    assert cluster.decision is None
    assert not any(node.asked for node in cluster.nodes)


def test_an_abort_drops_what_is_staged_on_every_node_that_answers(cluster: Cluster) -> None:
    cluster.nodes[0].answers["/txn/abort"] = BROKEN

    cluster.writer().abort([None, cluster.messages[0]], 3)

    for node in cluster.nodes:
        assert [(asked.path, asked.params) for asked in node.asked] == [("/txn/abort", {"txn": TXN})]


def test_the_next_batch_replaces_the_decision(cluster: Cluster) -> None:
    cluster.writer().commit(cluster.messages, 3)

    cluster.writer().commit([StagedMessage("query.4", part) for part in cluster.parts], 4)

    assert cluster.decision == Decision("query.4", tuple(cluster.parts))
