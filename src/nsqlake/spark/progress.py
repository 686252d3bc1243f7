"""A query's channel on every node: retention waits for it, and its depth is the query's lag."""

import logging
from collections.abc import Mapping
from dataclasses import replace

from nsqlake.spark.errors import NodeError
from nsqlake.spark.node_client import client_for
from nsqlake.spark.offsets import LogPosition, Positions, SourceKey
from nsqlake.spark.options import Access

__all__ = ["ProgressChannel"]

logger = logging.getLogger(__name__)

COMMIT_TIMEOUT_S = 5.0


class ProgressChannel:
    """Serves retention and whoever watches, never correctness: that is in Spark's checkpoint."""

    def __init__(self, name: str, access: Access) -> None:
        self.name, self._access = name, access
        # A commit that hangs would hang the query, and the next one makes up for it.
        self._hurried = replace(access, timeout_s=min(access.timeout_s, COMMIT_TIMEOUT_S), retries=0)
        self._known: set[SourceKey] = set()

    def ensure(self, starts: Mapping[SourceKey, LogPosition]) -> None:
        """Have the channel on every log, from where the query begins there. Raises NodeError."""
        if not self.name:
            return
        for key, position in starts.items():
            if key not in self._known:
                client = client_for(key.node, self._access)
                client.post_json("/channel/create", {**self._named(key), "from": position.offset})
                self._known.add(key)

    def cursor(self, key: SourceKey, first: int) -> int:
        """Where the channel is; a new one is made at the beginning of the log. Raises NodeError."""
        client = client_for(key.node, self._access)
        client.post_json("/channel/create", {**self._named(key), "from": first})
        self._known.add(key)
        moved = client.post_json("/channel/commit", {**self._named(key), "offset": 0})
        return int(moved["offset"])

    def commit(self, positions: Positions) -> None:
        """Move the channel; a failure is logged, because an exception here would kill the query."""
        if not self.name:
            return
        for key, position in positions.items():
            try:
                client = client_for(key.node, self._hurried)
                client.post_json("/channel/commit", {**self._named(key), "offset": position.offset})
            except NodeError as error:
                logger.warning("channel %s of topic %s not moved: %s", self.name, key.topic, error)

    def _named(self, key: SourceKey) -> dict[str, object]:
        return {"topic": key.topic, "channel": self.name}
