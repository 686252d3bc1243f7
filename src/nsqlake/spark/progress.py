"""A query's channel on every node: retention waits for it, and its depth is the query's lag."""

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import groupby

from nsqlake.spark.errors import NodeError, RefusedError
from nsqlake.spark.node_client import client_for
from nsqlake.spark.offsets import LogPosition, Positions, SourceKey
from nsqlake.spark.options import Access

__all__ = ["ProgressChannel"]

logger = logging.getLogger(__name__)

COMMIT_TIMEOUT_S = 5.0


class ProgressChannel:
    """Serves retention and whoever watches, never correctness: that is in Spark's checkpoint."""

    def __init__(self, name: str, access: Access, clock: Callable[[], float] = time.monotonic) -> None:
        self.name, self._access, self._clock = name, access, clock
        # A commit that hangs would hang the query, and the next one makes up for it.
        self._hurried = replace(access, timeout_s=min(access.timeout_s, COMMIT_TIMEOUT_S), retries=0)
        self._known: set[SourceKey] = set()
        self._committed = Positions()

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
        try:
            return int(moved["offset"])
        except (KeyError, TypeError, ValueError) as error:
            raise NodeError(key.node, "/channel/commit gave an answer that is not an nsqd's") from error

    def commit(self, positions: Positions) -> None:
        """Move the channel where it has to. What fails is only logged: an exception would kill the query."""
        if not self.name:
            return
        new = sorted((key for key, at in positions.items() if self._committed.get(key) != at), key=_by_node)
        deadline_s = self._clock() + COMMIT_TIMEOUT_S
        for node, keys in groupby(new, key=lambda key: key.node):
            if self._clock() > deadline_s:
                logger.warning("channel %s on node %s not moved: no time left", self.name, node)
                continue
            try:
                for key in keys:
                    self._move(key, positions[key])
            except NodeError as error:
                logger.warning("channel %s not moved: %s", self.name, error)

    def _move(self, key: SourceKey, position: LogPosition) -> None:
        client = client_for(key.node, self._hurried)
        try:
            client.post_json("/channel/commit", {**self._named(key), "offset": position.offset})
        except RefusedError as error:
            # Somebody may have deleted the channel, or the topic; what is left is made again.
            self._known.discard(key)
            logger.warning("channel %s of topic %s not moved: %s", self.name, key.topic, error)
        else:
            self._committed[key] = position

    def _named(self, key: SourceKey) -> dict[str, object]:
        return {"topic": key.topic, "channel": self.name}


def _by_node(key: SourceKey) -> tuple[str, str]:
    return key.node, key.topic
