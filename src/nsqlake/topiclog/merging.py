"""Small neighbouring spans as one, so that whoever reads them does not pay for each."""

from collections.abc import Sequence

import numpy as np

from nsqlake.topiclog.block import Span

__all__ = ["SMALL_COUNT", "merge_spans", "mergeable"]

SMALL_COUNT = 32  # messages of a span that is not worth reading by itself
_MAX_SPANS = 512
_MAX_BYTES = 128 * 1024


def mergeable(spans: Sequence[Span], start: int) -> int:
    """The end of the run of small spans from `start` on that can be one."""
    first = spans[start]
    stop, nbytes = start, 0
    end = first.base
    for span in spans[start : start + _MAX_SPANS]:
        nbytes += len(span.data)
        is_small = span.count <= SMALL_COUNT and isinstance(span.timestamp_ns, int)
        if not is_small or span.base != end or span.due_ns != first.due_ns or nbytes > _MAX_BYTES:
            break
        end = span.end
        stop += 1
    return stop


def merge_spans(spans: Sequence[Span]) -> Span:
    """One span of spans that `mergeable` found, each with its records and nothing else in `data`."""
    counts = [span.count for span in spans]
    stamps = np.repeat(np.array([span.timestamp_ns for span in spans], np.int64), counts)
    data = b"".join([span.data for span in spans])
    base, due_ns, size = spans[0].base, spans[0].due_ns, spans[0].record_size
    if size and all(span.record_size == size for span in spans):
        return Span(base, sum(counts), size, data, 0, size, None, stamps, due_ns)
    starts = [0]
    for span in spans:
        origin = starts.pop()
        if span.starts is None:
            starts.extend(range(origin, origin + len(span.data) + 1, span.record_size))
        else:
            starts.extend([origin + start for start in span.starts])
    return Span(base, sum(counts), 0, data, 0, 0, starts, stamps, due_ns)
