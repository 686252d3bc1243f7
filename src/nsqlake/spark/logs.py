"""What the nodes say about the logs of a query's topics, asked on the driver."""

import re
from collections.abc import Iterable
from typing import Any

from nsqlake.spark.advancing import Survey
from nsqlake.spark.errors import NodeError, OptionError
from nsqlake.spark.log_client import LogClient
from nsqlake.spark.node_client import client_for
from nsqlake.spark.nodes import ask_each, find_nodes
from nsqlake.spark.offsets import LogBounds, LogPosition, SourceKey
from nsqlake.spark.options import ReadOptions
from nsqlake.spark.planning import LogSizes

__all__ = ["Logs", "require_topics"]

FIRST_SPAN = 1 << 18  # messages
SPAN_GROWTH = 16


class Logs:
    """The logs that a query reads: which there are, and what lies in them."""

    def __init__(self, options: ReadOptions) -> None:
        self._options, self._access = options, options.access
        self._pattern = re.compile(options.pattern) if options.pattern else None

    def survey(self) -> Survey:
        """All there is now. NodeError when a node does not answer: nothing is skipped silently."""
        nodes = find_nodes(self._access)
        bounds = {
            key: found for logs in ask_each(nodes, self._logs_of).values() for key, found in logs.items()
        }
        _refuse_twins(bounds)
        return Survey(frozenset(nodes), bounds)

    def offset_at(self, key: SourceKey, timestamp_ns: int) -> int:
        return LogClient(key, self._access).offset_at(timestamp_ns)

    def sizes(self, key: SourceKey, start: LogPosition, end: int) -> LogSizes:
        """How the range is filled. Raises DataLossError."""
        return LogClient(key, self._access).sizes(start.log, start.offset, end)

    def sizes_up_to(
        self, key: SourceKey, start: LogPosition, end: int, *, messages: int | None, nbytes: int | None
    ) -> LogSizes:
        """The same, but no further than it takes for one of these to be exceeded.

        So that a trickle out of a huge log does not have the node measure all of it for every batch.
        """
        span = max(FIRST_SPAN, 2 * (messages or 0))
        while True:
            stop = min(end, start.offset + span)
            found = self.sizes(key, start, stop)
            is_enough = (messages is not None and found.messages > messages) or (
                nbytes is not None and found.nbytes > nbytes
            )
            if stop == end or is_enough:
                return found
            span *= SPAN_GROWTH

    def _logs_of(self, node: str) -> dict[SourceKey, LogBounds]:
        keys = [SourceKey(topic, node) for topic in self._topics(node)]
        found = {key: LogClient(key, self._access).bounds() for key in keys}
        return {key: bounds for key, bounds in found.items() if bounds is not None}

    def _topics(self, node: str) -> Iterable[str]:
        if self._pattern is None:
            return self._options.topics
        params = {"format": "json", "include_clients": "false", "include_mem": "false"}
        stats: Any = client_for(node, self._access).get_json("/stats", params)
        try:
            names = [str(topic["topic_name"]) for topic in stats["topics"]]
        except (KeyError, TypeError) as error:
            raise NodeError(node, "gave an answer that is not an nsqd's") from error
        return sorted(name for name in names if self._pattern.fullmatch(name) and "#" not in name)


def _refuse_twins(bounds: dict[SourceKey, LogBounds]) -> None:
    """One node under two addresses would be read twice."""
    seen: dict[tuple[str, str], str] = {}
    for key, found in bounds.items():
        other = seen.setdefault((key.topic, found.log), key.node)
        if other != key.node:
            raise OptionError("nsqd", f"{other},{key.node}", f"have the same log of topic {key.topic}")


def require_topics(found: Iterable[SourceKey], options: ReadOptions) -> None:
    """OptionError for a batch over a topic that no node has: an empty result would hide a wrong name."""
    known = {key.topic for key in found}
    for topic in options.topics:
        if topic not in known:
            raise OptionError(
                "topic" if len(options.topics) == 1 else "topics", topic, "is on none of the nodes"
            )
    if options.pattern and not known:
        raise OptionError("topicPattern", options.pattern, "matches no topic on any of the nodes")
