"""A log on a node: what its answers mean."""

from collections.abc import Iterator

import pytest

from nsqlake.spark.errors import DataLossError, NodeError, RefusedError
from nsqlake.spark.log_client import LogClient
from nsqlake.spark.offsets import LogBounds, SourceKey
from nsqlake.spark.options import Access
from nsqlake.spark.planning import LogSizes, Mark
from tests.fakes.http_node import FakeHttpNode, Reply, http_node, json_reply

LOG = "f00d"
OUTSIDE = json_reply({"message": "OFFSET_OUT_OF_RANGE"}, 416)
BOUNDS = json_reply({"uuid": LOG, "first": 50, "next": 60})
NO_TOPIC = json_reply({"message": "TOPIC_NOT_FOUND"}, 404)
READ = {"X-Nsq-Log-Uuid": LOG, "X-Nsq-Next-Offset": "9", "X-Nsq-Log-Salt": "7", "X-Nsq-Node-Id": "3"}


@pytest.fixture
def node() -> Iterator[FakeHttpNode]:
    with http_node() as node:
        yield node


def client(node: FakeHttpNode) -> LogClient:
    return LogClient(SourceKey("t", node.address), Access(nsqd=(node.address,), retries=0, timeout_s=5))


def test_bounds(node: FakeHttpNode) -> None:
    node.answers["/log/offsets"] = json_reply({"uuid": LOG, "first": 1, "next": 5, "at": 3})

    assert client(node).bounds() == LogBounds(LOG, 1, 5)
    assert client(node).offset_at(99) == 3
    assert node.asked[-1].params == {"topic": "t", "timestamp": "99"}


def test_a_topic_that_is_not_there_has_no_bounds(node: FakeHttpNode) -> None:
    node.answers["/log/offsets"] = NO_TOPIC

    assert client(node).bounds() is None


def test_an_nsqd_without_a_log_is_told_from_one_without_the_topic(node: FakeHttpNode) -> None:
    with pytest.raises(NodeError, match="has no /log/offsets: for nsqd of others there is mode=consume"):
        client(node).bounds()


def test_other_refusals_are_passed_on(node: FakeHttpNode) -> None:
    refusal = json_reply({"message": "FORBIDDEN"}, 403)
    node.answers.update({"/log/offsets": refusal, "/log/index": refusal, "/log/read": refusal})

    for ask in (
        client(node).bounds,
        lambda: client(node).sizes(LOG, 1, 2),
        lambda: client(node).read(LOG, 1, 2, skip_damaged=False),
    ):
        with pytest.raises(RefusedError, match="answered 403 FORBIDDEN"):
            ask()


def test_sizes_are_asked_for_only_if_there_is_a_range(node: FakeHttpNode) -> None:
    node.answers["/log/index"] = json_reply({"uuid": LOG, "marks": [[5, 100, 3], [9, 200, 7]]})

    assert client(node).sizes(LOG, 2, 9) == LogSizes(2, [Mark(5, 100, 3), Mark(9, 200, 7)])
    assert client(node).sizes(LOG, 9, 9) == LogSizes(9, [])
    assert len(node.asked) == 1


def test_blocks_come_with_what_is_needed_to_read_them(node: FakeHttpNode) -> None:
    node.answers["/log/read"] = Reply(b"blocks", headers=READ)

    blocks = client(node).read(LOG, 5, 100, skip_damaged=True)

    assert (bytes(blocks.data), blocks.next, blocks.salt, blocks.id_base) == (b"blocks", 9, 7, 3 << 54)
    assert node.asked[0].params == {"topic": "t", "offset": "5", "max_bytes": "100", "verified": "true"}


@pytest.mark.parametrize(
    ("bounds", "offset", "reason", "resume"),
    [
        (NO_TOPIC, 5, "was deleted; offsets from 5 on are gone", None),
        (BOUNDS, 5, "offsets 5 to 50 are no longer kept; see --retention-time", 50),
        (BOUNDS, 61, "ends before offset 61, which was there", None),
        (
            json_reply({"uuid": "cafe", "first": 50, "next": 60}),
            5,
            "was deleted and made anew; offsets from 5 on are gone",
            None,
        ),
    ],
)
def test_what_is_gone_is_a_loss(
    node: FakeHttpNode, bounds: Reply, offset: int, reason: str, resume: int | None
) -> None:
    node.answers["/log/read"] = node.answers["/log/index"] = NO_TOPIC if bounds is NO_TOPIC else OUTSIDE
    node.answers["/log/offsets"] = bounds

    for ask in (
        lambda: client(node).sizes(LOG, offset, offset + 1),
        lambda: client(node).read(LOG, offset, 9, skip_damaged=False),
    ):
        with pytest.raises(DataLossError) as loss:
            ask()
        assert (loss.value.reason, loss.value.resume) == (reason, resume)


def test_another_log_under_the_same_name_is_a_loss(node: FakeHttpNode) -> None:
    node.answers["/log/read"] = Reply(b"", headers={**READ, "X-Nsq-Log-Uuid": "cafe"})
    node.answers["/log/index"] = json_reply({"uuid": "cafe", "marks": []})

    for ask in (
        lambda: client(node).sizes(LOG, 5, 6),
        lambda: client(node).read(LOG, 5, 9, skip_damaged=False),
    ):
        with pytest.raises(DataLossError, match="was deleted and made anew; offsets from 5 on are gone"):
            ask()


@pytest.mark.parametrize(
    "junk", [[], {}, {"uuid": LOG, "first": "x", "next": 1}, {"uuid": LOG, "marks": [[1]]}]
)
def test_junk_is_not_taken_for_an_nsqd(node: FakeHttpNode, junk: object) -> None:
    node.answers["/log/offsets"] = node.answers["/log/index"] = json_reply(junk)
    node.answers["/log/read"] = Reply(b"", headers={"X-Nsq-Log-Uuid": LOG, "X-Nsq-Next-Offset": "x"})

    for ask in (
        client(node).bounds,
        lambda: client(node).offset_at(1),
        lambda: client(node).sizes(LOG, 1, 2),
        lambda: client(node).read(LOG, 1, 2, skip_damaged=False),
    ):
        with pytest.raises(NodeError, match="gave an answer that is not an nsqd's"):
            ask()
