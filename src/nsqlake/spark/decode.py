"""Good blocks as Arrow columns, in bulk: nothing here is done per message.

Blocks lie behind each other, so they are one Arrow array without copying: for each block an element for all
that comes before its records, then one for each record. Without the former, and without the first four bytes
of the latter, bodies are left.
"""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from nsqlake.spark.blocks import HEADER_BYTES, START_BYTES, BlockDamageError, BlockRun, Bytes, Ints

__all__ = ["decode_run"]

_SIZE_BYTES = 4
_NO_END = 1 << 30
_LARGE_BLOCK_BYTES = 4096
_ID_DIGITS = 16
_FOUR_DIGITS = np.frombuffer(b"".join(b"%04x" % number for number in range(1 << 16)), np.uint32)


def decode_run(
    run: BlockRun, *, start: int, end: int, schema: pa.Schema, id_base: int, topic: str, node: str
) -> pa.RecordBatch:
    """The messages of [start, end) that the run holds, with the columns that the schema names."""
    all_offsets = _ranges(run.bases, run.counts)
    low, high = np.searchsorted(all_offsets, (start, end)).tolist()
    rows, offsets = high - low, all_offsets[low:high]
    makers: dict[str, Callable[[], pa.Array]] = {
        "body": lambda: _bodies(run)[low:high],
        "id": lambda: _ids(offsets, id_base),
        "offset": lambda: pa.array(offsets),
        "timestamp": lambda: _timestamps(run)[low:high],
        "topic": lambda: pa.repeat(pa.scalar(topic), rows),
        "node": lambda: pa.repeat(pa.scalar(node), rows),
    }
    return pa.RecordBatch.from_arrays([makers[name]() for name in schema.names], schema=schema)


def _ranges(firsts: Ints, counts: Ints, step: int = 1) -> Ints:
    """`counts[i]` numbers from `firsts[i]` on, for each i, in one row."""
    ends = np.cumsum(counts)
    numbers = np.arange(ends[-1])
    numbers *= step
    numbers += np.repeat(firsts - step * (ends - counts), counts)
    return numbers


def _timestamps(run: BlockRun) -> pa.Array:
    return pa.array(np.repeat(run.timestamps_us, run.counts)).view(pa.timestamp("us", "UTC"))


def _ids(offsets: Ints, id_base: int) -> pa.Array:
    count = len(offsets)
    quarters = (offsets.view(np.uint64) + np.uint64(id_base)).astype(">u8").view(">u2")
    digits = _FOUR_DIGITS[quarters]
    places = np.arange(0, _ID_DIGITS * count + 1, _ID_DIGITS, dtype=np.int32)
    return pa.Array.from_buffers(pa.string(), count, [None, pa.py_buffer(places), pa.py_buffer(digits)])


# Bodies -----------------------------------------------------------------------------------------------


def _bodies(run: BlockRun) -> pa.Array:
    is_even = bool(run.record_sizes.all())
    if is_even and not run.is_tagged and len(run.counts) == run.counts.sum():
        # A message per block: header and record are one element.
        blocks = _elements(run.data, int(run.places[0]), np.diff(run.places))
        return pc.binary_slice(blocks, HEADER_BYTES + _SIZE_BYTES, _NO_END)
    sizes = np.repeat(run.record_sizes, run.counts) if is_even else _record_sizes(run)
    records = _without_heads(run, sizes)
    return pc.binary_slice(records, _SIZE_BYTES, _NO_END)  # without an end it overflows


def _without_heads(run: BlockRun, sizes: Ints) -> pa.Array:
    counts = run.counts
    firsts = np.cumsum(counts) - counts
    begins = run.places[:-1] + HEADER_BYTES + np.where(run.record_sizes > 0, 0, START_BYTES * (counts + 1))
    ends = begins + np.add.reduceat(sizes, firsts)
    if run.places[-1] - run.places[0] >= _LARGE_BLOCK_BYTES * len(counts):
        return _elements(_scratch.join(run.data, begins, ends), 0, sizes)
    heads = begins - np.append(run.places[0], ends[:-1])  # with what a tag left behind the block before
    at = firsts + np.arange(len(counts))
    is_record = np.ones(len(sizes) + len(counts), bool)
    is_record[at] = False
    both = np.empty(len(is_record), np.int64)
    both[is_record] = sizes
    both[at] = heads
    return _elements(run.data, int(run.places[0]), both).filter(pa.array(is_record))


class _Scratch:
    """Memory for joining records, used again and again: fresh memory would cost a page fault per 4 KiB."""

    def __init__(self) -> None:
        self._room = np.empty(0, np.uint8)

    def join(self, data: Bytes, begins: Ints, ends: Ints) -> Bytes:
        pieces = [data[a:b] for a, b in zip(begins.tolist(), ends.tolist(), strict=True)]
        nbytes = int((ends - begins).sum())
        if len(self._room) < nbytes:
            self._room = np.empty(nbytes + nbytes // 4, np.uint8)
        return np.concatenate(pieces, out=self._room[:nbytes])


_scratch = _Scratch()


def _elements(data: Bytes, begin: int, sizes: Ints) -> pa.Array:
    places = np.zeros(len(sizes) + 1, np.int32)
    np.cumsum(sizes, out=places[1:])
    buffers = [None, pa.py_buffer(places), pa.py_buffer(data[begin : begin + int(places[-1])])]
    return pa.Array.from_buffers(pa.binary(), len(sizes), buffers)


def _record_sizes(run: BlockRun) -> Ints:
    """When at least one block has records of different sizes."""
    sizes = np.repeat(run.record_sizes, run.counts)
    is_mixed = run.record_sizes == 0
    counts = run.counts[is_mixed]
    starts = _starts(run.data, run.places[:-1][is_mixed] + HEADER_BYTES, counts + 1)
    is_last = np.zeros(len(starts), bool)
    is_last[np.cumsum(counts + 1) - 1] = True
    found = np.diff(starts, append=0)[~is_last]
    room = np.diff(run.places)[is_mixed] - HEADER_BYTES - START_BYTES * (counts + 1)
    if bool((found < _SIZE_BYTES).any() or (starts[is_last] > room).any()):
        raise BlockDamageError(int(run.bases[0]), "records overlap")
    sizes[np.repeat(is_mixed, run.counts)] = found
    return sizes


def _starts(data: Bytes, at: Ints, counts: Ints) -> Ints:
    # A number may begin at any byte: a view in which the numbers overlap.
    anywhere: npt.NDArray[np.uint32] = np.ndarray(len(data) - START_BYTES + 1, ">u4", data, 0, (1,))
    return anywhere[_ranges(at, counts, START_BYTES)].astype(np.int64)
