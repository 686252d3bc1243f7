"""A topic's log on one node, as it is asked for: what is gone is a DataLossError."""

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

from nsqlake.spark.errors import DataLossError, NodeError, RefusedError
from nsqlake.spark.node_client import client_for
from nsqlake.spark.offsets import LogBounds, SourceKey
from nsqlake.spark.options import Access
from nsqlake.spark.planning import LogSizes, Mark

__all__ = ["LogClient", "RawBlocks"]

STEP_BYTES = 256 * 1024

_OFFSET_BITS = 54

T = TypeVar("T")


class RawBlocks(NamedTuple):
    """Blocks as they are stored; valid until the node is asked again."""

    data: memoryview
    next: int
    salt: int
    id_base: int


class LogClient:
    """Raises NodeError when the node does not answer, or makes no sense."""

    def __init__(self, key: SourceKey, access: Access) -> None:
        self._key, self._client = key, client_for(key.node, access)

    def bounds(self) -> LogBounds | None:
        """None when there is no such topic."""
        try:
            answer = self._get("/log/offsets")
        except RefusedError as error:
            if error.code == "TOPIC_NOT_FOUND":
                return None
            if error.status == 404:
                reason = "has no /log/offsets: for nsqd of others there is mode=consume"
                raise NodeError(self._key.node, reason) from error
            raise
        return self._parse(lambda: LogBounds(str(answer["uuid"]), int(answer["first"]), int(answer["next"])))

    def offset_at(self, timestamp_ns: int) -> int:
        """The first message of this time or later, the end of the log when there is none."""
        answer = self._get("/log/offsets", timestamp=timestamp_ns)
        return self._parse(lambda: int(answer["at"]))

    def sizes(self, log: str, start: int, end: int) -> LogSizes:
        """How [start, end) is filled. Raises DataLossError."""
        if start >= end:
            return LogSizes(start, [])
        try:
            answer = self._get("/log/index", offset=start, end=end, step_bytes=STEP_BYTES)
        except RefusedError as error:
            raise self._loss(error, log, start) or error from error
        if self._parse(lambda: answer["uuid"]) != log:
            raise self._made_anew(start)
        return LogSizes(start, self._parse(lambda: [Mark(*map(int, mark)) for mark in answer["marks"]]))

    def read(self, log: str, offset: int, max_bytes: int, *, skip_damaged: bool) -> RawBlocks:
        """From the block that holds `offset` on, about `max_bytes`. Raises DataLossError."""
        verified = {"verified": "true"} if skip_damaged else {}
        params = {"topic": self._key.topic, "offset": offset, "max_bytes": max_bytes, **verified}
        try:
            answer = self._client.request("GET", "/log/read", params)
        except RefusedError as error:
            raise self._loss(error, log, offset) or error from error
        headers = answer.headers
        if headers.get("x-nsq-log-uuid") != log:
            raise self._made_anew(offset)
        return self._parse(
            lambda: RawBlocks(
                answer.body,
                int(headers["x-nsq-next-offset"]),
                int(headers["x-nsq-log-salt"]),
                int(headers["x-nsq-node-id"]) << _OFFSET_BITS,
            )
        )

    def _get(self, path: str, **params: object) -> Any:
        return self._client.get_json(path, {"topic": self._key.topic, **params})

    def _parse(self, take: Callable[[], T]) -> T:
        try:
            return take()
        except (KeyError, TypeError, ValueError) as error:
            raise NodeError(self._key.node, "gave an answer that is not an nsqd's") from error

    def _made_anew(self, offset: int) -> DataLossError:
        return DataLossError(*self._key, f"was deleted and made anew; offsets from {offset} on are gone")

    def _loss(self, error: RefusedError, log: str, offset: int) -> DataLossError | None:
        """What a refusal means for who wanted to read at `offset`; None if it is about something else."""
        if error.code not in ("TOPIC_NOT_FOUND", "OFFSET_OUT_OF_RANGE"):
            return None
        found = self.bounds()
        if found is None:
            return DataLossError(*self._key, f"was deleted; offsets from {offset} on are gone")
        if found.log != log:
            return self._made_anew(offset)
        if offset >= found.first:
            return DataLossError(*self._key, f"ends before offset {offset}, which was there")
        reason = f"offsets {offset} to {found.first} are no longer kept; see --retention-time"
        return DataLossError(*self._key, reason, resume=found.first)
