"""The messages of one range as Arrow batches: what a task does."""

import logging
from collections.abc import Iterator

import pyarrow as pa

from nsqlake.spark.blocks import BlockDamageError, find_runs
from nsqlake.spark.decode import decode_run
from nsqlake.spark.errors import DataLossError, NodeError
from nsqlake.spark.log_client import LogClient, RawBlocks
from nsqlake.spark.offsets import SourceKey
from nsqlake.spark.options import Access
from nsqlake.spark.planning import LogRange

__all__ = ["RangeReader"]

logger = logging.getLogger(__name__)

LEAST_REQUEST_BYTES = 64 * 1024
_TRIES_BEFORE_DAMAGE = 2  # a block may also have been damaged on its way


class RangeReader:
    """Reads [start, end) of one log in order. Raises NodeError, and DataLossError for what is gone."""

    def __init__(
        self, wanted: LogRange, access: Access, *, request_bytes: int, fail_on_data_loss: bool
    ) -> None:
        self._wanted, self._request_bytes = wanted, request_bytes
        self._fail_on_data_loss = fail_on_data_loss
        self._client = LogClient(SourceKey(wanted.topic, wanted.node), access)
        self._at = wanted.start
        self._left_bytes = wanted.nbytes
        self._bad_reads = 0

    def batches(self, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        while self._at < self._wanted.end:
            begin = self._at
            try:
                blocks = self._ask()
                yield from self._decode(blocks, schema)
            except DataLossError as loss:
                self._lose(loss)
                continue
            except BlockDamageError as error:
                self._note_damage(error)
                continue
            self._bad_reads = 0
            self._left_bytes -= len(blocks.data)
            self._at = max(self._at, blocks.next)
            if self._at <= begin:
                raise NodeError(self._wanted.node, f"has nothing at offset {begin} of {self._wanted.topic}")

    def _ask(self) -> RawBlocks:
        # About what is left and not more, or every small range of a large log would be sent megabytes.
        nbytes = min(max(self._left_bytes, LEAST_REQUEST_BYTES), self._request_bytes)
        skip_damaged = self._bad_reads >= _TRIES_BEFORE_DAMAGE
        return self._client.read(self._wanted.log, self._at, nbytes, skip_damaged=skip_damaged)

    def _decode(self, blocks: RawBlocks, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        wanted, begin = self._wanted, self._at
        for run in find_runs(blocks.data, blocks.salt, begin, wanted.end):
            batch = decode_run(
                run,
                start=begin,
                end=wanted.end,
                schema=schema,
                id_base=blocks.id_base,
                topic=wanted.topic,
                node=wanted.node,
            )
            self._at = run.end
            if batch.num_rows:
                yield batch

    def _lose(self, loss: DataLossError) -> None:
        if self._fail_on_data_loss:
            raise loss
        logger.error("%s", loss)
        end = self._wanted.end
        self._at = end if loss.resume is None else min(max(loss.resume, self._at + 1), end)

    def _note_damage(self, error: BlockDamageError) -> None:
        """Ask again; then have the node look, which skips and counts what is damaged on its disk."""
        self._bad_reads += 1
        if self._bad_reads > _TRIES_BEFORE_DAMAGE:
            raise NodeError(self._wanted.node, f"topic {self._wanted.topic}: {error}") from error
        if self._bad_reads == _TRIES_BEFORE_DAMAGE:
            reason = f"the block at offset {error.offset} is damaged: {error.reason}"
            loss = DataLossError(self._wanted.topic, self._wanted.node, reason)
            if self._fail_on_data_loss:
                raise loss from error
            logger.error("%s", loss)
