"""Which messages wait, are in batches, or are done: so that a delivery that comes again adds no row.

nsqd delivers again what was not finished: after a lost connection, after the longest time that a message
may be touched, or because a FIN got lost. A message is known by its nsqd and its id.
"""

from collections.abc import Iterable
from typing import Generic, Protocol, TypeVar

__all__ = ["Deliveries", "Delivery", "Key"]

Key = tuple[str, str]  # nsqd, id


class Delivery(Protocol):
    """What is used of a client's message."""

    @property
    def id(self) -> bytes: ...

    @property
    def body(self) -> bytes: ...

    @property
    def nsqd_address(self) -> str: ...

    @property
    def is_cancelled(self) -> bool: ...


D = TypeVar("D", bound=Delivery)


class Deliveries(Generic[D]):
    """Batches are numbered. `kept_ids`: of how many messages of done batches the ids are remembered."""

    def __init__(self, kept_ids: int) -> None:
        self._kept_ids = kept_ids
        self._waiting: dict[Key, D] = {}
        self._held: dict[Key, D] = {}
        self._done: set[Key] = set()
        self._open: dict[int, list[Key]] = {}
        self._closed: dict[int, list[Key]] = {}

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    def arrive(self, delivery: D) -> bool:
        """False if its batch is done: it can be finished at once."""
        key = _key(delivery)
        if key in self._done:
            return False
        # The newest delivery is the one that nsqd takes an answer for.
        (self._held if key in self._held else self._waiting)[key] = delivery
        return True

    def next_batch(self, number: int, most: int, max_bytes: int | None) -> list[D]:
        """Take what waits: at most so many, and not much more than `max_bytes`."""
        batch: dict[Key, D] = {}
        nbytes = 0
        while self._waiting and len(batch) < most and (max_bytes is None or nbytes < max_bytes):
            key = next(iter(self._waiting))
            delivery = self._waiting.pop(key)
            if not delivery.is_cancelled:  # else it comes again anyway
                batch[key] = delivery
                nbytes += len(delivery.body)
        if batch:
            self._held |= batch
            self._open[number] = list(batch)
        return list(batch.values())

    def settle(self, last: int) -> list[D]:
        """Batches up to `last` are done: returns what is to be finished."""
        found: list[D] = []
        for number in [number for number in self._open if number <= last]:
            keys = self._open.pop(number)
            found += [self._held.pop(key) for key in keys]
            self.remember(number, keys)
        return found

    def remember(self, number: int, keys: Iterable[Key]) -> None:
        """A batch that is done."""
        self._closed[number] = list(keys)
        self._done.update(self._closed[number])

    def forget(self) -> list[int]:
        """Drop the oldest done batches that are too many, never the newest; returns their numbers."""
        dropped: list[int] = []
        while len(self._done) > self._kept_ids and len(self._closed) > 1:
            number = next(iter(self._closed))
            self._done.difference_update(self._closed.pop(number))
            dropped.append(number)
        return dropped

    def unfinished(self) -> list[D]:
        return [*self._held.values(), *self._waiting.values()]


def _key(delivery: Delivery) -> Key:
    return delivery.nsqd_address, delivery.id.decode()
