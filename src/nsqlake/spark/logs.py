"""What the nodes say about the logs of a query's topics, asked on the driver."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from nsqlake.spark.errors import NodeError, OptionError
from nsqlake.spark.node_client import NodeClient, RefusedError, client_for
from nsqlake.spark.offsets import SourceKey
from nsqlake.spark.options import Access, ReadOptions
from nsqlake.spark.planning import LogSizes, Mark

__all__ = ["LogBounds", "Logs", "find_nodes", "require_topics"]

STEP_BYTES = 256 * 1024


@dataclass(frozen=True)
class LogBounds:
    """Where a log begins and ends; `log` is its UUID."""

    log: str
    first: int
    next: int
    at: int | None = None


class Logs:
    """The logs that a query reads: which there are, and what lies in them."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        self._pattern = re.compile(options.pattern) if options.pattern else None

    def bounds(self, timestamp_ns: int | None = None) -> dict[SourceKey, LogBounds]:
        """Of every log there is now. NodeError when a node does not answer: nothing is skipped silently."""
        found: dict[SourceKey, LogBounds] = {}
        for node in find_nodes(self._options.access):
            client = client_for(node, self._options.access)
            for topic in self._topics(client):
                bounds = self._bounds(client, topic, timestamp_ns)
                if bounds is not None:
                    found[SourceKey(topic, node)] = bounds
        return found

    def sizes(self, key: SourceKey, start: int, end: int) -> LogSizes:
        """How [start, end) is filled."""
        if start >= end:
            return LogSizes(start, [Mark(start, 0, 0)])
        client = client_for(key.node, self._options.access)
        answer = client.get_json(
            "/log/index", {"topic": key.topic, "offset": start, "end": end, "step_bytes": STEP_BYTES}
        )
        return LogSizes(start, [Mark(*mark) for mark in answer["marks"]])

    def _bounds(self, client: NodeClient, topic: str, timestamp_ns: int | None) -> LogBounds | None:
        asked: dict[str, object] = {"topic": topic}
        if timestamp_ns is not None:
            asked["timestamp"] = timestamp_ns
        try:
            answer = client.get_json("/log/offsets", asked)
        except RefusedError as error:
            if error.code == "TOPIC_NOT_FOUND":
                return None
            if error.status == 404:
                raise NodeError(
                    client.node, "has no /log/offsets: for nsqd of others there is mode=consume"
                ) from error
            raise
        return LogBounds(answer["uuid"], answer["first"], answer["next"], answer.get("at"))

    def _topics(self, client: NodeClient) -> Iterable[str]:
        if self._pattern is None:
            return self._options.topics
        stats = client.get_json(
            "/stats", {"format": "json", "include_clients": "false", "include_mem": "false"}
        )
        names = [topic["topic_name"] for topic in stats["topics"]]
        return sorted(name for name in names if self._pattern.fullmatch(name) and "#" not in name)


def find_nodes(access: Access) -> list[str]:
    """The nodes of a cluster by their HTTP addresses. NodeError when no nsqlookupd answers."""
    if access.nsqd:
        return list(access.nsqd)
    answers = [_try_lookupd(address, access) for address in access.lookupd]
    failures = [answer for answer in answers if isinstance(answer, NodeError)]
    if len(failures) == len(answers):
        raise failures[0]
    producers = [node for answer in answers if not isinstance(answer, NodeError) for node in answer]
    nodes = sorted({f"{node['broadcast_address']}:{node['http_port']}" for node in producers})
    if not nodes:
        raise NodeError(",".join(access.lookupd), "knows no nsqd")
    return nodes


def _try_lookupd(address: str, access: Access) -> list[dict[str, Any]] | NodeError:
    try:
        answer = client_for(address, access).get_json("/nodes")
        producers: list[dict[str, Any]] = answer["producers"]
    except NodeError as error:
        return error
    except (KeyError, TypeError):
        return NodeError(address, "is no nsqlookupd")
    return producers


def require_topics(found: dict[SourceKey, LogBounds], options: ReadOptions) -> None:
    """OptionError for a batch over a topic that no node has: an empty result would hide a wrong name."""
    known = {key.topic for key in found}
    for topic in options.topics:
        if topic not in known:
            raise OptionError("topic", topic, "is on none of the nodes")
