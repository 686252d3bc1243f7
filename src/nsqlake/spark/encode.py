"""Rows as bodies of MPUB, in bulk: nothing here is done per message."""

import struct
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nsqlake.spark.errors import RowError
from nsqlake.wire.names import is_valid_name

__all__ = ["Mpub", "check_columns", "encode_batch"]

MAX_BODY_BYTES = 4 * 1024 * 1024  # nsqd takes 5 MiB unless told otherwise

_COUNT = struct.Struct(">i")
_SIZE_BYTES = 4


class Mpub(NamedTuple):
    """One request; its body is a 4-byte count, then size and bytes of each message."""

    topic: str
    defer_ms: int
    message_count: int
    body: bytes

    def bodies(self) -> Iterator[bytes]:
        """The messages one by one."""
        at = _COUNT.size
        for _ in range(self.message_count):
            (size,) = _COUNT.unpack_from(self.body, at)
            yield self.body[at + _SIZE_BYTES : at + _SIZE_BYTES + size]
            at += _SIZE_BYTES + size


def check_columns(schema: pa.Schema, default_topic: str) -> None:
    """RowError for a DataFrame that cannot be published."""
    names = schema.names
    if "body" not in names:
        raise RowError("body", f"is missing; the columns are {', '.join(names)}")
    if not default_topic and "topic" not in names:
        raise RowError("topic", "is missing; give it as a column or as the option topic")
    for name in names:
        if name not in ("body", "topic", "defer_ms"):
            raise RowError(name, "is not known; a row has body and, if wanted, topic and defer_ms")
    for name, kinds in (("body", (pa.binary(), pa.string())), ("topic", (pa.string(),))):
        if name in names and schema.field(name).type not in kinds:
            raise RowError(name, f"must be {' or '.join(map(str, kinds))}, not {schema.field(name).type}")
    if "defer_ms" in names and not pa.types.is_integer(schema.field("defer_ms").type):
        raise RowError("defer_ms", "must be a whole number")


def encode_batch(batch: pa.RecordBatch, default_topic: str) -> Iterator[Mpub]:
    """The rows by topic and delay, in order, in requests of about 4 MiB. Raises RowError."""
    for topic, defer_ms, bodies in _groups(batch, default_topic):
        if not is_valid_name(topic.encode()):
            raise RowError("topic", f"{topic[:80]!r} is no valid name")
        for count, body in _split(_records(bodies)):
            yield Mpub(topic, defer_ms, count, body)


def _groups(batch: pa.RecordBatch, default_topic: str) -> Iterator[tuple[str, int, pa.Array]]:
    bodies = batch.column("body")
    if bodies.null_count:
        raise RowError("body", f"is null in {bodies.null_count} rows")
    bodies = bodies.cast(pa.binary())
    names = [name for name in ("topic", "defer_ms") if name in batch.schema.names]
    if not names:
        yield default_topic, 0, bodies
        return
    keys = pa.table({name: batch.column(name) for name in names})
    for key in keys.group_by(names, use_threads=False).aggregate([]).to_pylist():
        mask = None
        for name, value in key.items():
            column = batch.column(name)
            same = pc.is_null(column) if value is None else pc.fill_null(pc.equal(column, value), False)
            mask = same if mask is None else pc.and_(mask, same)
        topic = key.get("topic") if "topic" in names else default_topic
        if not (topic or default_topic):
            raise RowError("topic", "is null")
        yield topic or default_topic, _defer_ms(key.get("defer_ms")), bodies.filter(mask)


def _defer_ms(value: int | None) -> int:
    if value is not None and value < 0:
        raise RowError("defer_ms", f"{value} is negative")
    return value or 0


def _records(bodies: pa.Array) -> pa.Array:
    sizes = pc.binary_length(bodies).to_numpy(zero_copy_only=False)
    if len(sizes) and not sizes.min():
        raise RowError("body", "is empty in a row, which NSQ does not allow")
    places = pa.py_buffer(np.arange(0, _SIZE_BYTES * len(sizes) + 1, _SIZE_BYTES, dtype=np.int32))
    prefixes = pa.py_buffer(sizes.astype(">i4").tobytes())
    heads = pa.Array.from_buffers(pa.binary(), len(sizes), [None, places, prefixes])
    return pc.binary_join_element_wise(heads, bodies, b"")


def _split(records: pa.Array) -> Iterator[tuple[int, bytes]]:
    if not len(records):
        return
    _, places_buffer, data = records.buffers()
    places = np.frombuffer(places_buffer, np.int32, len(records) + 1, records.offset * 4)
    view = memoryview(data)
    start = 0
    while start < len(records):
        stop = int(np.searchsorted(places, places[start] + MAX_BODY_BYTES, "right")) - 1
        stop = min(max(stop, start + 1), len(records))
        yield stop - start, _COUNT.pack(stop - start) + bytes(view[places[start] : places[stop]])
        start = stop
