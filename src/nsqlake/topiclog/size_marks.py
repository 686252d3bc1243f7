"""How the bytes of a log are spread over its offsets, by its index alone."""

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from nsqlake.topiclog.segment import Segment

__all__ = ["size_marks"]

_Columns = tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]


def size_marks(
    segments: Iterable[Segment], start: int, stop: int, step_bytes: int, most: int
) -> list[tuple[int, int]]:
    """(offset of a block, bytes of blocks between `start` and it) about every `step_bytes`, at most `most`.

    The last one is `stop`, with all bytes. A block counts if it begins in [start, stop) or holds `start`.
    """
    columns = [_columns(segment, start, stop) for segment in segments]
    offsets = np.concatenate([offsets for offsets, _ in columns] or [np.empty(0, np.int64)])
    sizes = np.concatenate([sizes for _, sizes in columns] or [np.empty(0, np.int64)])
    ends = np.cumsum(sizes)
    total = int(ends[-1]) if len(ends) else 0
    step = max(step_bytes, -(-total // max(most - 1, 1)))
    wanted = np.arange(step, total, step)
    at = np.unique(np.searchsorted(ends, wanted)) + 1  # the block after the one that passes the mark
    at = at[at < len(offsets)]
    return [*zip(offsets[at].tolist(), ends[at - 1].tolist(), strict=True), (stop, total)]


def _columns(segment: Segment, start: int, stop: int) -> _Columns:
    index = segment.index
    first, last = index.find(start), index.find(stop)
    if last < len(index) and index.offset(last) < stop:
        last += 1
    positions = np.frombuffer(index.positions, np.uint32).astype(np.int64)
    sizes = np.diff(np.append(positions, segment.size))[first:last]
    offsets = np.frombuffer(index.bases, np.uint32).astype(np.int64)[first:last] + index.base
    return np.maximum(offsets, start), sizes
