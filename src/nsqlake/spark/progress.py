"""A query's channel on every node: retention waits for it, and its depth is the query's lag."""

import logging
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from nsqlake.spark.errors import NodeError, RefusedError
from nsqlake.spark.node_client import client_for
from nsqlake.spark.nodes import ask_each
from nsqlake.spark.offsets import LogPosition, Positions, SourceKey
from nsqlake.spark.options import Access

__all__ = ["ProgressChannel"]

logger = logging.getLogger(__name__)

COMMIT_TIMEOUT_S = 5.0

_GONE_MEANWHILE = ("OFFSET_OUT_OF_RANGE", "TOPIC_NOT_FOUND")  # which the next batch is told about


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
        new = _by_node(starts.keys() - self._known) if self.name else {}

        def create(node: str) -> None:
            client = client_for(node, self._access)
            for key in new[node]:
                try:
                    client.post_json("/channel/create", {**self._named(key), "from": starts[key].offset})
                except RefusedError as error:
                    if error.code not in _GONE_MEANWHILE:
                        raise
                    logger.warning("channel %s of topic %s not made: %s", self.name, key.topic, error)
                else:
                    self._known.add(key)

        ask_each(list(new), create)

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
        moved = [key for key, at in positions.items() if self._committed.get(key) != at]
        new = _by_node(moved) if self.name else {}
        ask_each(list(new), lambda node: self._move_on(node, new[node], positions))

    def _move_on(self, node: str, keys: Sequence[SourceKey], positions: Positions) -> None:
        deadline_s = self._clock() + COMMIT_TIMEOUT_S
        try:
            for key in keys:
                if self._clock() > deadline_s:
                    raise NodeError(node, f"took longer than {COMMIT_TIMEOUT_S:.0f} s")
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


def _by_node(keys: Iterable[SourceKey]) -> dict[str, list[SourceKey]]:
    found: dict[str, list[SourceKey]] = defaultdict(list)
    for key in sorted(keys):
        found[key.node].append(key)
    return dict(found)
