"""What tests of the source publish, and how they read it without Spark around."""

import json
import struct
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit

from nsqlake.spark.node_client import NodeClient
from nsqlake.spark.options import Access, parse_read
from nsqlake.spark.stream_reader import NsqStreamReader
from tests.fakes.http_node import FakeHttpNode, http_node, json_reply
from tests.fakes.nsqd_process import wait_for

Offset = dict[str, Any]
SMALL_FILES = 2000  # bytes: a few messages fill a segment, which retention can remove


def ask(node: str, method: str, path: str, body: bytes = b"", **params: object) -> Any:
    client = NodeClient(node, Access(nsqd=(node,)))
    try:
        answer = client.request(method, path, params, body)
        return json.loads(bytes(answer.body)) if answer.body[:1] in (b"{", b"[") else None
    finally:
        client.close()


def publish(node: str, topic: str, bodies: Iterable[bytes]) -> None:
    bodies = list(bodies)
    records = b"".join(struct.pack(">i", len(body)) + body for body in bodies)
    ask(node, "POST", "/mpub", struct.pack(">i", len(bodies)) + records, topic=topic, binary="true")


def numbers(start: int, end: int) -> list[bytes]:
    return [b"%d" % number for number in range(start, end)]


def bounds(node: str, topic: str) -> tuple[int, int]:
    found = ask(node, "GET", "/log/offsets", topic=topic)
    return found["first"], found["next"]


def channel_depth(node: str, topic: str, channel: str) -> int:
    stats = ask(node, "GET", "/stats", format="json", topic=topic, channel=channel)
    depth: int = stats["topics"][0]["channels"][0]["depth"]
    return depth


def lose_all(node: str, topic: str) -> int:
    """Have retention remove what was published so far; returns where the log begins then."""
    first, next_ = bounds(node, topic)
    ask(node, "POST", "/channel/create", topic=topic, channel="passing", **{"from": first})
    ask(node, "POST", "/channel/commit", topic=topic, channel="passing", offset=next_)
    publish(node, topic, [b"x" * SMALL_FILES])  # so that the file before it is no longer the last one
    publish(node, topic, [b"y"])
    wait_for(lambda: bounds(node, topic)[0] >= next_)
    return bounds(node, topic)[0]


@contextmanager
def lookupd_of(*nodes: str) -> Iterator[FakeHttpNode]:
    with http_node() as lookupd:
        tell_nodes(lookupd, *nodes)
        yield lookupd


def tell_nodes(lookupd: FakeHttpNode, *nodes: str) -> None:
    pairs = [node.rsplit(":", 1) for node in nodes]
    producers = [{"broadcast_address": host, "http_port": int(port)} for host, port in pairs]
    lookupd.answers["/nodes"] = json_reply({"producers": producers})


# A reader as Spark's driver uses it -------------------------------------------------------------------


def make_reader(**options: object) -> NsqStreamReader:
    given = {"retries": 0, "requestTimeout": 5, **options}
    return NsqStreamReader(parse_read({name: str(value) for name, value in given.items()}, streaming=True))


def through_text(offset: Offset) -> Offset:
    """Spark keeps offsets as text, and compares them so."""
    copied: Offset = json.loads(json.dumps(offset))
    return copied


class Query:
    """Runs batches one by one, as Spark does, and notes what they gave."""

    def __init__(self, reader: NsqStreamReader, start: Offset | None = None) -> None:
        self.reader = reader
        self.at = reader.initialOffset() if start is None else start

    def plan(self, limit: ReadLimit | None = None) -> Offset:
        limit = limit or self.reader.getDefaultReadLimit()
        return through_text(self.reader.latestOffset(through_text(self.at), limit))

    def run(self, limit: ReadLimit | None = None) -> list[bytes]:
        end = self.plan(limit)
        bodies = self.read(self.at, end)
        self.at = end
        return bodies

    def run_all(self) -> list[bytes]:
        return self.run(ReadAllAvailable())

    def read(self, start: Offset, end: Offset) -> list[bytes]:
        return [body for part in self.parts(start, end) for body in part]

    def parts(self, start: Offset, end: Offset) -> Sequence[list[bytes]]:
        partitions = self.reader.partitions(through_text(start), through_text(end))
        return [
            [body for batch in self.reader.read(each) for body in batch.column("body").to_pylist()]
            for each in partitions
        ]

    @property
    def is_idle(self) -> bool:
        return json.dumps(self.plan()) == json.dumps(self.at)
