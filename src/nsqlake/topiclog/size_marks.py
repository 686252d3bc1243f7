"""How the bytes of a log are spread over its offsets, by its index alone."""

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from nsqlake.topiclog.segment import Segment

__all__ = ["size_marks"]

Ints = npt.NDArray[np.int64]

_NONE: Ints = np.empty(0, np.int64)


def size_marks(
    segments: Iterable[Segment], start: int, stop: int, step_bytes: int, most: int
) -> list[tuple[int, int, int]]:
    """(offset of a block, bytes of blocks and messages from `start` to it) about every `step_bytes`.

    At most `most` marks; the last one is `stop`, with all there is. A block counts if it begins in
    [start, stop) or holds `start`.
    """
    columns = [_columns(segment, start, stop) for segment in segments]
    offsets, sizes, counts = (np.concatenate([_NONE, *(each[i] for each in columns)]) for i in range(3))
    bytes_to, messages_to = np.cumsum(sizes), np.cumsum(counts)
    total = int(bytes_to[-1]) if len(bytes_to) else 0
    messages = int(messages_to[-1]) if len(messages_to) else 0
    step = max(step_bytes, -(-total // max(most - 1, 1)))
    passing = np.unique(np.searchsorted(bytes_to, np.arange(step, total, step)))
    at = passing[passing + 1 < len(offsets)] + 1  # the block after the one that passes a mark
    marks = zip(offsets[at].tolist(), bytes_to[at - 1].tolist(), messages_to[at - 1].tolist(), strict=True)
    return [*marks, (stop, total, messages)]


def _columns(segment: Segment, start: int, stop: int) -> tuple[Ints, Ints, Ints]:
    """Offset, bytes and messages of each block, less the messages outside of [start, stop)."""
    index = segment.index
    first, last = index.find(start), index.find(stop)
    if last < len(index) and index.offset(last) < stop:
        last += 1
    positions = np.frombuffer(index.positions, np.uint32).astype(np.int64)
    sizes = np.diff(np.append(positions, segment.size))[first:last]
    bases = np.frombuffer(index.bases, np.uint32).astype(np.int64)[first:last] + index.base
    ends = bases + np.frombuffer(index.counts, np.uint32)[first:last]
    offsets = np.maximum(bases, start)
    return offsets, sizes, np.minimum(ends, stop) - offsets
