"""Messages that wait for a time: a heap by due time, with cancellation."""

from heapq import heapify, heappop, heappush, nsmallest

__all__ = ["Deferred"]

_SLACK = 1024  # stale heap entries that are tolerated before the heap is rebuilt


class Deferred:
    """Offsets and the time before which each may not be delivered."""

    __slots__ = ("_due", "_heap")

    def __init__(self) -> None:
        self._due: dict[int, int] = {}
        self._heap: list[tuple[int, int]] = []

    def __len__(self) -> int:
        return len(self._due)

    def __contains__(self, offset: int) -> bool:
        return offset in self._due

    def add(self, offset: int, due_ns: int) -> None:
        self._due[offset] = due_ns
        heappush(self._heap, (due_ns, offset))
        self._drop_stale()

    def cancel(self, offset: int) -> bool:
        # The heap keeps a stale entry, which `pop_due` skips: cancelling stays O(1).
        found = self._due.pop(offset, None) is not None
        self._drop_stale()
        return found

    def _drop_stale(self) -> None:
        if len(self._heap) > 2 * len(self._due) + _SLACK:
            self._heap = [(due_ns, offset) for offset, due_ns in self._due.items()]
            heapify(self._heap)

    def pop_due(self, now_ns: int) -> list[int]:
        due: list[int] = []
        heap = self._heap
        while heap and heap[0][0] <= now_ns:
            due_ns, offset = heappop(heap)
            if self._due.get(offset) == due_ns:
                del self._due[offset]
                due.append(offset)
        return due

    def next_due_ns(self) -> int | None:
        heap = self._heap
        while heap and self._due.get(heap[0][1]) != heap[0][0]:
            heappop(heap)
        return heap[0][0] if heap else None

    def due_ns(self, offset: int) -> int:
        """When the message is due, 0 when it is not deferred."""
        return self._due.get(offset, 0)

    def earliest(self, limit: int, after: tuple[int, int] = (0, 0)) -> list[tuple[int, int]]:
        """(due_ns, offset) of up to `limit` messages behind `after`, in that order."""
        entries = ((due_ns, offset) for offset, due_ns in self._due.items())
        return nsmallest(limit, (entry for entry in entries if entry > after))

    def items(self) -> list[tuple[int, int]]:
        """(offset, due_ns) of all, in order of offset."""
        return sorted(self._due.items())
