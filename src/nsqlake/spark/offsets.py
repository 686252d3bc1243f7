"""How far a query has read: an offset per topic and node, and the log it is an offset of.

As Spark keeps it, with keys in order, because Spark compares offsets as text:

    {"init": {...}, "n": {"<topic>": {"<node>": {"at": <offset>, "log": "<uuid>"}}}}

`init` is where the query began. Spark asks for the initial offset again when the first batch is recovered
and does not journal it, so every later offset carries it along.
"""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from nsqlake.spark.errors import OptionError

__all__ = ["LogPosition", "Positions", "QueryOffset", "SourceKey"]


class SourceKey(NamedTuple):
    """One topic on one node."""

    topic: str
    node: str


class LogPosition(NamedTuple):
    """An offset, and the UUID of the log that it belongs to."""

    offset: int
    log: str


class Positions(dict[SourceKey, LogPosition]):
    """A position in every log of a query."""

    def encode(self) -> dict[str, Any]:
        encoded: dict[str, Any] = {}
        for key in sorted(self):
            offset, log = self[key]
            encoded.setdefault(key.topic, {})[key.node] = {"at": offset, "log": log}
        return encoded

    @classmethod
    def decode(cls, encoded: Mapping[str, Any]) -> "Positions":
        return cls(
            (SourceKey(topic, node), LogPosition(int(found["at"]), str(found["log"])))
            for topic, nodes in encoded.items()
            for node, found in nodes.items()
        )


class QueryOffset(NamedTuple):
    """What Spark is told: where the query is, and where it began."""

    positions: Positions
    init: Positions

    def encode(self) -> dict[str, Any]:
        return {"init": self.init.encode(), "n": self.positions.encode()}

    @classmethod
    def decode(cls, encoded: Mapping[str, Any]) -> "QueryOffset":
        return cls(Positions.decode(encoded["n"]), Positions.decode(encoded.get("init") or {}))


def parse_starting(option: str, text: Mapping[str, Any]) -> Iterator[tuple[SourceKey, int]]:
    """The offsets of an option, {"topic": {"node": offset}}."""
    for topic, nodes in text.items():
        if not isinstance(nodes, Mapping):
            raise OptionError(option, topic, 'must look like {"topic": {"host:4151": 123}}')
        for node, offset in nodes.items():
            if isinstance(offset, bool) or not isinstance(offset, int) or offset < -2:
                raise OptionError(option, offset, f"offset of {topic} on {node} must be a whole number")
            yield SourceKey(topic, str(node)), offset
