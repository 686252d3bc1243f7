"""Rows as bodies of MPUB, in bulk: nothing here is done per message."""

import struct
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from nsqlake.spark.errors import RowError
from nsqlake.wire.names import is_valid_name

__all__ = ["Mpub", "check_columns", "encode_batch"]

_INT32 = struct.Struct(">i")
_INT32_BYTES = 4
_TYPES = {
    "body": ("binary", "string", "char", "varchar"),
    "topic": ("string", "char", "varchar"),
    "defer_ms": ("byte", "short", "integer", "long"),
}

T = TypeVar("T", bound=Hashable)
Ints = npt.NDArray[np.int64]


class Mpub(NamedTuple):
    """One request; its body is a 4-byte count, then size and bytes of each message."""

    topic: str
    defer_ms: int
    message_count: int
    body: memoryview

    def messages(self) -> Iterator[memoryview]:
        """The messages one by one."""
        at = _INT32_BYTES
        for _ in range(self.message_count):
            (size,) = _INT32.unpack_from(self.body, at)
            at += _INT32_BYTES
            yield self.body[at : at + size]
            at += size


def check_columns(columns: Sequence[tuple[str, str]], default_topic: str) -> None:
    """RowError for a DataFrame whose columns, names and Spark's names of their types, cannot be published."""
    names = [name for name, _ in columns]
    if "body" not in names:
        raise RowError("body", f"is missing; there are: {', '.join(names) or 'none'}")
    if not default_topic and "topic" not in names:
        raise RowError("topic", "is missing; give it as a column or as the option topic")
    for name, count in Counter(names).items():
        if name not in _TYPES:
            raise RowError(name, f"is not known; a row has {', '.join(_TYPES)} and nothing else")
        if count > 1:
            raise RowError(name, f"is there {count} times")
    for name, kind in columns:
        if kind not in _TYPES[name]:
            raise RowError(name, f"must be {' or '.join(_TYPES[name])}, not {kind}")


def encode_batch(batch: pa.RecordBatch, default_topic: str, max_bytes: int) -> Iterator[Mpub]:
    """The rows by topic and delay, in order, in requests of at most about `max_bytes`. Raises RowError.

    A message that is longer has a request of its own.
    """
    bodies = batch.column("body")
    sizes = _sizes(bodies)
    for topic, defer_ms, rows in _groups(batch, default_topic):
        if rows is None:
            pieces = _encode(bodies, sizes, max_bytes)
        else:
            pieces = _encode(bodies.take(pa.array(rows)), sizes[rows], max_bytes)
        for count, body in pieces:
            yield Mpub(topic, defer_ms, count, body)


def _sizes(bodies: pa.Array) -> Ints:
    if bodies.null_count:
        raise RowError("body", f"is null in {bodies.null_count} rows")
    sizes: Ints = pc.binary_length(bodies).to_numpy(zero_copy_only=False).astype(np.int64)
    if len(sizes) and not sizes.min():
        raise RowError("body", f"is empty in {np.count_nonzero(sizes == 0)} rows, which NSQ does not allow")
    return sizes


def _groups(batch: pa.RecordBatch, default_topic: str) -> Iterator[tuple[str, int, Ints | None]]:
    """Topic, delay and the rows that have them; None for all rows."""
    topics, topic_codes = _distinct(batch, "topic", lambda value: _topic(value, default_topic))
    delays_ms, delay_codes = _distinct(batch, "defer_ms", _defer_ms)
    if len(topics) == len(delays_ms) == 1:
        yield topics[0], delays_ms[0], None
        return
    codes = topic_codes * len(delays_ms) + delay_codes
    order = np.argsort(codes, kind="stable")  # rows of one topic stay in their order
    starts = np.flatnonzero(np.diff(codes[order], prepend=-1))
    for rows in np.split(order, starts[1:]) if len(order) else ():
        topic, delay = divmod(int(codes[rows[0]]), len(delays_ms))
        yield topics[topic], delays_ms[delay], rows


def _distinct(batch: pa.RecordBatch, name: str, read: Callable[[object], T]) -> tuple[list[T], Ints]:
    """The values of a column, as one null if there is no such, and for each row which it has."""
    if name not in batch.schema.names:
        return [read(None)], np.zeros(batch.num_rows, np.int64)
    encoded = pc.dictionary_encode(batch.column(name), null_encoding="encode")
    values = [read(value) for value in encoded.dictionary.to_pylist()]
    places = {value: place for place, value in enumerate(dict.fromkeys(values))}
    same = np.array([places[value] for value in values], np.int64)
    return list(places), same[encoded.indices.to_numpy()]


def _topic(value: object, default_topic: str) -> str:
    if value is None and not default_topic:
        raise RowError("topic", "is null, and the option topic is not given")
    topic = default_topic if value is None else str(value)
    if not is_valid_name(topic.encode()):
        raise RowError("topic", f"{topic[:80]!r} is no valid name")
    return topic


def _defer_ms(value: object) -> int:
    defer_ms = value if isinstance(value, int) else 0
    if defer_ms < 0:
        raise RowError("defer_ms", f"{defer_ms} is negative")
    return defer_ms


def _encode(bodies: pa.Array, sizes: Ints, max_bytes: int) -> Iterator[tuple[int, memoryview]]:
    ends = np.cumsum(sizes + _INT32_BYTES)
    start = sent_bytes = 0
    while start < len(sizes):
        stop = int(np.searchsorted(ends, sent_bytes + max_bytes - _INT32_BYTES, "right"))
        stop = max(stop, start + 1)
        yield stop - start, _body(bodies.slice(start, stop - start), sizes[start:stop])
        start, sent_bytes = stop, int(ends[stop - 1])


def _body(bodies: pa.Array, sizes: Ints) -> memoryview:
    """Count and sized messages as one piece of memory; the first size has the count before it."""
    numbers = np.empty(len(sizes) + 1, ">i4")
    numbers[0], numbers[1:] = len(sizes), sizes
    places = np.arange(_INT32_BYTES, _INT32_BYTES * (len(sizes) + 2), _INT32_BYTES, dtype=np.int32)
    places[0] = 0
    heads = pa.Array.from_buffers(
        pa.binary(), len(sizes), [None, pa.py_buffer(places), pa.py_buffer(numbers)]
    )
    joined = pc.binary_join_element_wise(heads, bodies.cast(pa.binary()), b"")
    return memoryview(joined.buffers()[2])[: int(sizes.sum()) + _INT32_BYTES * len(numbers)]
