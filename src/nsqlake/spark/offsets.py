"""How far a query has read: an offset per topic and node, and the log it is an offset of.

As Spark keeps it, with keys in order, because Spark compares offsets as text:

    {"init": {...}, "n": {"<topic>": {"<node>": {"at": <offset>, "log": "<uuid>"}}}}

`init` is where the logs begin that the batch which ends here is the first to read. Spark does not journal the
initial offset and asks for it again when the first batch is recovered, so it says nothing: it has no `init`.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

__all__ = ["LogBounds", "LogPosition", "Positions", "QueryOffset", "SourceKey"]


class SourceKey(NamedTuple):
    """One topic on one node."""

    topic: str
    node: str


class LogPosition(NamedTuple):
    """An offset, and the UUID of the log that it belongs to."""

    offset: int
    log: str


class LogBounds(NamedTuple):
    """Where a log begins and ends; `log` is its UUID."""

    log: str
    first: int
    next: int


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
    """What Spark is told. `init` is None as long as the query has not begun."""

    positions: Positions
    init: Positions | None

    @classmethod
    def not_begun(cls) -> "QueryOffset":
        return cls(Positions(), None)

    @property
    def has_begun(self) -> bool:
        return self.init is not None

    def encode(self) -> dict[str, Any]:
        init = {} if self.init is None else {"init": self.init.encode()}
        return {**init, "n": self.positions.encode()}

    @classmethod
    def decode(cls, encoded: Mapping[str, Any]) -> "QueryOffset":
        init = encoded.get("init")
        return cls(Positions.decode(encoded["n"]), None if init is None else Positions.decode(init))
