"""What a task reads, also from nodes that send damaged blocks or none."""

from collections.abc import Iterator

import pytest

from nsqlake.spark.errors import DataLossError, NodeError
from nsqlake.spark.options import Access
from nsqlake.spark.planning import LogRange
from nsqlake.spark.range_reader import LEAST_REQUEST_BYTES, RangeReader
from nsqlake.spark.schema import arrow_schema
from tests.fakes.http_node import FakeHttpNode, Reply, http_node
from tests.spark.block_bytes import SALT, block

LOG = "f00d"
GOOD = block(10, [b"a", b"b"])
MORE = block(12, [b"c", b"d"])


@pytest.fixture
def node() -> Iterator[FakeHttpNode]:
    with http_node() as node:
        yield node


def sent(data: bytes, next_: int) -> Reply:
    headers = {
        "X-Nsq-Log-Uuid": LOG,
        "X-Nsq-Log-Salt": str(SALT),
        "X-Nsq-Node-Id": "3",
        "X-Nsq-Next-Offset": str(next_),
    }
    return Reply(data, headers=headers)


def damaged(data: bytes) -> bytes:
    return data[:-1] + bytes([data[-1] ^ 1])


def read(
    node: FakeHttpNode, start: int = 10, end: int = 14, *, lenient: bool = False, nbytes: int = 0
) -> list[bytes]:
    reader = RangeReader(
        LogRange("t", node.address, LOG, start, end, nbytes),
        Access(nsqd=(node.address,), retries=0, timeout_s=5),
        request_bytes=1_000_000,
        fail_on_data_loss=not lenient,
    )
    batches = list(reader.batches(arrow_schema(("body",))))
    return [body for batch in batches for body in batch.column(0).to_pylist()]


def offsets_asked(node: FakeHttpNode) -> list[str]:
    return [asked.params["offset"] + asked.params.get("verified", "") for asked in node.asked]


def test_a_range_is_read_on_until_its_end(node: FakeHttpNode) -> None:
    node.answers["/log/read"] = [sent(GOOD, 12), sent(MORE, 14)]

    assert read(node) == [b"a", b"b", b"c", b"d"]
    assert offsets_asked(node) == ["10", "12"]


def test_only_the_range_is_read_of_its_blocks(node: FakeHttpNode) -> None:
    node.answers["/log/read"] = sent(GOOD + MORE, 14)

    assert read(node, 11, 13) == [b"b", b"c"]


def test_no_more_is_asked_for_than_the_range_has(node: FakeHttpNode) -> None:
    node.answers["/log/read"] = [sent(GOOD, 12), sent(MORE, 14)]

    read(node, nbytes=100_000)

    assert [asked.params["max_bytes"] for asked in node.asked] == ["100000", str(100_000 - len(GOOD))]
    node.asked.clear()
    node.answers["/log/read"] = sent(GOOD + MORE, 14)
    read(node, nbytes=1)
    read(node, nbytes=10**9)
    assert [asked.params["max_bytes"] for asked in node.asked] == [str(LEAST_REQUEST_BYTES), "1000000"]


def test_offsets_without_messages_are_passed(node: FakeHttpNode) -> None:
    node.answers["/log/read"] = [sent(GOOD, 12), sent(b"", 1 << 30)]

    assert read(node, 10, 1 << 30) == [b"a", b"b"]


def test_a_node_that_has_nothing_and_does_not_go_on_is_named(node: FakeHttpNode) -> None:
    node.answers["/log/read"] = sent(b"", 10)

    with pytest.raises(NodeError, match=f"node {node.address}: has nothing at offset 10 of t"):
        read(node)


def test_a_block_that_was_damaged_on_its_way_is_asked_for_again(node: FakeHttpNode) -> None:
    node.answers["/log/read"] = [sent(GOOD + damaged(MORE), 14), sent(MORE, 14)]

    assert read(node) == [b"a", b"b", b"c", b"d"]
    assert offsets_asked(node) == ["10", "12"]


def test_a_block_that_stays_damaged_is_a_loss(node: FakeHttpNode) -> None:
    node.answers["/log/read"] = sent(damaged(GOOD), 12)

    with pytest.raises(DataLossError, match="the block at offset 10 is damaged: checksum failed"):
        read(node)


def test_a_block_that_stays_damaged_may_be_passed_and_is_logged(
    node: FakeHttpNode, caplog: pytest.LogCaptureFixture
) -> None:
    node.answers["/log/read"] = [sent(damaged(GOOD) + MORE, 14)] * 2 + [sent(MORE, 14)]

    assert read(node, lenient=True) == [b"c", b"d"]
    assert offsets_asked(node) == ["10", "10", "10true"]
    assert "the block at offset 10 is damaged" in caplog.text


def test_a_node_that_sends_damage_even_so_fails_the_task(node: FakeHttpNode) -> None:
    node.answers["/log/read"] = sent(damaged(GOOD), 12)

    with pytest.raises(NodeError, match="topic t: bad block at offset 10: checksum failed"):
        read(node, lenient=True)
