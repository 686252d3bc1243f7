"""The accounting of Jepsen's total-queue: what goes in must come out.

A publish is acknowledged, refused, or unanswered: then nobody knows, and both outcomes are right. A message
is lost when it was acknowledged and nobody ever finished it, though its channel was drained completely.
"""

from __future__ import annotations

import enum
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from typing import Protocol

from tests.crash.bodies import Content, Key, decode

MS = 1_000_000
SETTLED_NS = 500 * MS  # finishes and deliveries of the last half second before a kill may be forgotten
EARLY_TOLERANCE_NS = 5 * MS


class Outcome(enum.Enum):
    UNANSWERED = "unanswered"
    ACKNOWLEDGED = "acknowledged"
    REFUSED = "refused"


@dataclass(slots=True)
class Verdict:
    """What is wrong, by kind; all empty when nothing is."""

    lost: list[Key] = field(default_factory=list)
    unexpected: list[object] = field(default_factory=list)  # damaged, never sent, or refused
    duplicated: list[Key] = field(default_factory=list)  # though its finish was settled
    early: list[Key] = field(default_factory=list)
    wrong_attempts: list[tuple[Key, list[int]]] = field(default_factory=list)
    partial_mpubs: list[tuple[int, int]] = field(default_factory=list)

    @property
    def faults(self) -> dict[str, str]:
        """Number and first examples of every kind of fault there is."""
        found = {each.name: getattr(self, each.name) for each in fields(self)}
        return {name: f"{len(items)}: {items[:5]}" for name, items in found.items() if items}


class Book:
    """Everything that was published to one topic, and what came of it on each of its channels."""

    def __init__(self) -> None:
        self.published: dict[Key, Content] = {}
        self.outcomes: dict[Key, Outcome] = {}
        self.interruptions_ns: list[int] = []  # ends of the daemon: deliveries on their way are not seen
        self.channels: dict[str, ChannelBook] = {}

    def channel(self, name: str) -> ChannelBook:
        return self.channels.setdefault(name, ChannelBook(self))

    def attempt(self, contents: Iterable[Content]) -> None:
        for content in contents:
            self.published[content.key] = content
            self.outcomes[content.key] = Outcome.UNANSWERED

    def answer(self, contents: Iterable[Content], outcome: Outcome) -> None:
        self.outcomes.update((content.key, outcome) for content in contents)

    def interrupted(self) -> None:
        """The daemon has just ended."""
        self.interruptions_ns.append(time.time_ns())

    def count(self, outcome: Outcome) -> int:
        return Counter(self.outcomes.values())[outcome]

    @property
    def acknowledged(self) -> set[Key]:
        return {key for key, outcome in self.outcomes.items() if outcome is Outcome.ACKNOWLEDGED}

    @property
    def last_due_ns(self) -> int:
        return max((content.due_ns for content in self.published.values()), default=0)

    @property
    def faults(self) -> dict[str, dict[str, str]]:
        """By channel; empty when all is well."""
        verdicts = {name: channel.verdict().faults for name, channel in self.channels.items()}
        return {name: faults for name, faults in verdicts.items() if faults}


class Delivered(Protocol):
    """A message as any client has it."""

    @property
    def body(self) -> bytes: ...

    @property
    def attempts(self) -> int: ...


@dataclass(slots=True)
class Delivery:
    received_ns: int
    attempts: int


class ChannelBook:
    """What consumers of one channel got, and did with it."""

    def __init__(self, book: Book) -> None:
        self._book = book
        self.deliveries: dict[Key, list[Delivery]] = {}
        self.finished_ns: dict[Key, int] = {}
        self.requeued: dict[Key, list[tuple[int, int]]] = {}  # when, and until when
        self.strange: list[object] = []

    def deliver(self, message: Delivered) -> Key | None:
        """Note a message; None if it is none of ours or damaged."""
        content = decode(message.body)
        if content is None or self._book.published.get(content.key) != content:
            self.strange.append(content or message)
            return None
        delivery = Delivery(time.time_ns(), message.attempts)
        self.deliveries.setdefault(content.key, []).append(delivery)
        return content.key

    def finish(self, keys: Iterable[Key]) -> None:
        now_ns = time.time_ns()
        self.finished_ns.update((key, now_ns) for key in keys)

    def requeue(self, key: Key, sent_ns: int, due_ns: int) -> None:
        """The daemon has taken note of a REQ that was sent at `sent_ns`."""
        self.requeued.setdefault(key, []).append((sent_ns, due_ns))

    def forget_settled(self) -> None:
        """Finishes and attempts so far may be forgotten, as if they had happened just before the last end."""
        end_ns = self._book.interruptions_ns[-1]
        self.finished_ns = dict.fromkeys(self.finished_ns, end_ns - 1)
        for deliveries in self.deliveries.values():
            for delivery in deliveries:
                delivery.received_ns = end_ns - 2

    @property
    def unfinished(self) -> set[Key]:
        """What the channel owes us."""
        return self._book.acknowledged - self.finished_ns.keys()

    def verdict(self) -> Verdict:
        book = self._book
        refused = [key for key in self.deliveries if book.outcomes[key] is Outcome.REFUSED]
        return Verdict(
            lost=sorted(self.unfinished),
            unexpected=[*self.strange, *refused],
            duplicated=[key for key in self.finished_ns if self._came_again(key)],
            early=[key for key in self.deliveries if self._came_early(key)],
            wrong_attempts=self._wrong_attempts(),
            partial_mpubs=self._partial_mpubs(),
        )

    def _is_settled(self, when_ns: int) -> bool:
        """Whether the daemon lived on long enough to write down what happened then."""
        ends = self._book.interruptions_ns
        at = bisect_left(ends, when_ns)
        return at == len(ends) or ends[at] - when_ns > SETTLED_NS

    def _came_again(self, key: Key) -> bool:
        finished_ns = self.finished_ns[key]
        return self.deliveries[key][-1].received_ns > finished_ns and self._is_settled(finished_ns)

    def _came_early(self, key: Key) -> bool:
        due_ns = self._book.published[key].due_ns
        waits = [(0, due_ns), *self.requeued.get(key, [])]
        return any(
            sent_ns < delivery.received_ns < until_ns - EARLY_TOLERANCE_NS
            for delivery in self.deliveries[key]
            for sent_ns, until_ns in waits
        )

    def _wrong_attempts(self) -> list[tuple[Key, list[int]]]:
        wrong = []
        for key, deliveries in self.deliveries.items():
            if any(not self._may_follow(deliveries, number) for number in range(len(deliveries))):
                wrong.append((key, [delivery.attempts for delivery in deliveries]))
        return wrong

    def _may_follow(self, deliveries: list[Delivery], number: int) -> bool:
        """Every delivery counts one more; one that we did not see, or the daemon did not note, may differ."""
        this = deliveries[number]
        unseen = bisect_left(self._book.interruptions_ns, this.received_ns)
        if number == 0:
            return 1 <= this.attempts <= 1 + unseen
        before = deliveries[number - 1]
        least = before.attempts + self._is_settled(before.received_ns)
        return least <= this.attempts <= number + 1 + unseen

    def _partial_mpubs(self) -> list[tuple[int, int]]:
        came = Counter((content.producer, content.group) for content in self._came() if content.group)
        sizes = {(c.producer, c.group): c.group_size for c in self._book.published.values() if c.group}
        return [group for group, count in came.items() if count != sizes[group]]

    def _came(self) -> Iterable[Content]:
        return (self._book.published[key] for key in self.deliveries)
