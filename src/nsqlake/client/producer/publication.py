"""One publish on its way, and the queues it stands in; pure: no loop, no clock."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Final, Protocol

import msgspec

MIN_PURGE: Final = 1024


class Outcome(Protocol):
    """What the caller waits for: an asyncio or a concurrent future, or anything alike."""

    def done(self) -> bool: ...
    def set_result(self, result: None, /) -> None: ...
    def set_exception(self, exception: BaseException, /) -> None: ...


class Publication(msgspec.Struct, eq=False):
    """A publish that is not answered yet; done when its outcome is, whatever happens to it afterwards."""

    outcome: Outcome
    topic: str
    command: bytes
    size_bytes: int
    message_count: int
    submitted_s: float
    deadline_s: float
    retries_left: int
    failed_at: str = ""  # the address of the nsqd that failed it last
    unknown_at: str = ""  # the address of the nsqd that may have stored it in an earlier attempt

    @property
    def is_done(self) -> bool:
        return self.outcome.done()


class PendingPublishes:
    """What one connection has sent and nsqd has not answered, in the order of the wire.

    A publish that nobody waits for any more keeps its place: its answer still comes, and without the place
    every later answer would go to the wrong publish.
    """

    __slots__ = ("_queue", "append")

    def __init__(self) -> None:
        self._queue: deque[Publication] = deque()
        self.append = self._queue.append

    def __len__(self) -> int:
        return len(self._queue)

    def __iter__(self) -> Iterator[Publication]:
        return iter(self._queue)

    def take(self, count: int) -> list[Publication]:
        """Remove the oldest `count`; there must be as many."""
        pop = self._queue.popleft
        return [pop() for _ in range(count)]

    def take_all(self) -> list[Publication]:
        return self.take(len(self._queue))


class WaitingPublishes:
    """What could not be sent yet, for want of a ready nsqd or of room."""

    __slots__ = ("_purge_at", "_queue", "size_bytes")

    def __init__(self) -> None:
        self._queue: deque[Publication] = deque()
        self._purge_at = MIN_PURGE
        self.size_bytes = 0

    def __len__(self) -> int:
        return len(self._queue)

    def __iter__(self) -> Iterator[Publication]:
        return iter(self._queue)

    def append(self, publication: Publication) -> None:
        self._queue.append(publication)
        self.size_bytes += publication.size_bytes
        if len(self._queue) >= self._purge_at:
            self.purge()

    def put_back(self, publications: Iterable[Publication]) -> None:
        """Those were sent once already, so they go before all others, in their order."""
        returned = list(publications)
        self._queue.extendleft(reversed(returned))
        self.size_bytes += sum(publication.size_bytes for publication in returned)

    def head(self) -> Publication | None:
        """The oldest that somebody still waits for."""
        queue = self._queue
        while queue:
            if not queue[0].is_done:
                return queue[0]
            self.pop()
        return None

    def pop(self) -> Publication:
        publication = self._queue.popleft()
        self.size_bytes -= publication.size_bytes
        return publication

    def take_all(self) -> list[Publication]:
        return [self.pop() for _ in range(len(self._queue))]

    def purge(self) -> None:
        # Callers who gave up leave their bodies behind; purging at twice the size costs O(1) per publish.
        self._queue = deque(publication for publication in self._queue if not publication.is_done)
        self.size_bytes = sum(publication.size_bytes for publication in self._queue)
        self._purge_at = max(MIN_PURGE, 2 * len(self._queue))


class Room:
    """How much may be sent and unanswered at once, over all connections."""

    __slots__ = ("_max_bytes", "_max_count", "count", "size_bytes")

    def __init__(self, max_count: int, max_bytes: int) -> None:
        self._max_count, self._max_bytes = max_count, max_bytes
        self.count = 0
        self.size_bytes = 0

    def fits(self, size_bytes: int) -> bool:
        """A publish that is larger than everything allowed goes alone."""
        count = self.count
        return not count or (count < self._max_count and self.size_bytes + size_bytes <= self._max_bytes)

    def fits_behind(self, waiting: WaitingPublishes, size_bytes: int) -> bool:
        """Whether there is room for it after all that wait."""
        count = self.count + len(waiting)
        return not count or (
            count < self._max_count and self.size_bytes + waiting.size_bytes + size_bytes <= self._max_bytes
        )

    def take(self, size_bytes: int) -> None:
        self.count += 1
        self.size_bytes += size_bytes

    def give_back(self, count: int, size_bytes: int) -> None:
        self.count -= count
        self.size_bytes -= size_bytes
