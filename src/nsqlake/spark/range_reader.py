"""The messages of one range as Arrow batches: what a task does."""

import logging
from collections.abc import Iterator

import pyarrow as pa

from nsqlake.spark.decode import BlockDamageError, decode_run, find_runs
from nsqlake.spark.errors import DataLossError, NodeError
from nsqlake.spark.node_client import Answer, RefusedError, client_for
from nsqlake.spark.options import Access
from nsqlake.spark.planning import LogRange

__all__ = ["RangeReader"]

logger = logging.getLogger(__name__)

_OFFSET_BITS = 54
_TRIES_BEFORE_DAMAGE = 2  # a block may also have been damaged on its way


class RangeReader:
    """Reads [start, end) of one log in order. Raises NodeError, and DataLossError for what is gone."""

    def __init__(
        self, wanted: LogRange, access: Access, *, request_bytes: int, fail_on_data_loss: bool
    ) -> None:
        self._wanted, self._request_bytes = wanted, request_bytes
        self._fail_on_data_loss = fail_on_data_loss
        self._client = client_for(wanted.node, access)
        self._at = wanted.start
        self._bad_reads = 0

    def batches(self, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        while self._at < self._wanted.end:
            answer = self._ask()
            if answer is None:
                continue
            try:
                yield from self._decode(answer, schema)
            except BlockDamageError as error:
                self._note_damage(error)
                continue
            self._bad_reads = 0
            next_ = int(answer.headers["x-nsq-next-offset"])
            if next_ <= self._at and not answer.body:
                raise NodeError(
                    self._wanted.node, f"has nothing at offset {self._at} of {self._wanted.topic}"
                )
            self._at = max(self._at, next_)

    def _decode(self, answer: Answer, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        wanted, begin = self._wanted, self._at
        salt = int(answer.headers["x-nsq-log-salt"])
        id_base = int(answer.headers["x-nsq-node-id"]) << _OFFSET_BITS
        for run in find_runs(answer.body, salt, begin, wanted.end):
            batch = decode_run(
                run,
                start=begin,
                end=wanted.end,
                schema=schema,
                id_base=id_base,
                topic=wanted.topic,
                node=wanted.node,
            )
            self._at = int(run.offsets[-1]) + 1
            if batch.num_rows:
                yield batch

    def _ask(self) -> Answer | None:
        """Raw blocks from where we are on; None when we had to go on elsewhere."""
        verified = {"verified": "true"} if self._bad_reads >= _TRIES_BEFORE_DAMAGE else {}
        params = {
            "topic": self._wanted.topic,
            "offset": self._at,
            "max_bytes": self._request_bytes,
            **verified,
        }
        try:
            answer = self._client.request("GET", "/log/read", params)
        except RefusedError as error:
            self._refused(error)
            return None
        if answer.headers.get("x-nsq-log-uuid") != self._wanted.log:
            raise self._loss("was deleted and made anew while it was read")
        return answer

    def _refused(self, error: RefusedError) -> None:
        if error.code == "TOPIC_NOT_FOUND":
            self._lose(f"was deleted; offsets {self._at} to {self._wanted.end} are gone", self._wanted.end)
        elif error.code == "OFFSET_OUT_OF_RANGE":
            first = int(self._client.get_json("/log/offsets", {"topic": self._wanted.topic})["first"])
            self._lose(f"offsets {self._at} to {first} are no longer kept; see --retention-time", first)
        else:
            raise error

    def _lose(self, reason: str, go_on_at: int) -> None:
        if self._fail_on_data_loss or go_on_at <= self._at:
            raise self._loss(reason)
        logger.error("topic %s on node %s: %s", self._wanted.topic, self._wanted.node, reason)
        self._at = min(go_on_at, self._wanted.end)

    def _note_damage(self, error: BlockDamageError) -> None:
        """Ask again; then have the node look, which skips and counts what is damaged on its disk."""
        self._bad_reads += 1
        if self._bad_reads > _TRIES_BEFORE_DAMAGE:
            raise NodeError(self._wanted.node, f"topic {self._wanted.topic}: {error}") from error
        if self._bad_reads == _TRIES_BEFORE_DAMAGE:
            if self._fail_on_data_loss:
                raise self._loss(f"the block at offset {error.offset} is damaged: {error.reason}")
            logger.error("topic %s on node %s: %s", self._wanted.topic, self._wanted.node, error)

    def _loss(self, reason: str) -> DataLossError:
        return DataLossError(self._wanted.topic, self._wanted.node, reason)
