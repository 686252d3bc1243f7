"""Who may hold how many messages: the RDY of every connection.

Pure: time and chance come in, the RDY counts to write come out, in the order in which to write them. What is
taken away stands before what is given, so that the sum never exceeds `max_in_flight`.

With no more connections than permits, each gets its share. With more, a permit is RDY 1, and permits go
round: from a connection that is idle, from one that had its permit for long, and from one that has just
answered its message to one that waits. The last only goes to connections that are likely to have messages,
or waited for long: otherwise a single busy nsqd would spend most of its time waiting for idle ones.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence, Sized
from typing import Final

STARVED_SHARE: Final = 0.85  # of the RDY count, as go-nsq has it
NORMAL: Final = -1  # no ceiling of its own


class Window:
    """One connection as `Flow` sees it: `in_flight` are its unanswered messages."""

    __slots__ = ("changed_s", "in_flight", "is_idle", "is_new", "last_message_s", "max_rdy", "rdy")

    def __init__(self, in_flight: Sized, max_rdy: int, *, is_new: bool = False) -> None:
        self.in_flight, self.max_rdy = in_flight, max_rdy
        self.is_new = is_new  # gets RDY 1 until its first message
        self.is_idle = False  # had a permit and no message
        self.rdy = 0
        self.changed_s = 0.0  # since when it has, or waits for, a permit
        self.last_message_s = -math.inf


Change = tuple[Window, int]


class Flow:
    """Owns the RDY counts; every method returns the changes to write."""

    def __init__(
        self,
        max_in_flight: int,
        *,
        idle_timeout_s: float,
        low_rdy_timeout_s: float,
        chance: Callable[[], float],
    ) -> None:
        self.windows: list[Window] = []
        self.max_in_flight = max_in_flight
        self._idle_timeout_s, self._low_rdy_timeout_s = idle_timeout_s, low_rdy_timeout_s
        self._chance = chance
        self._ceiling = NORMAL
        self.is_rotating = False  # more connections than permits

    @property
    def limit(self) -> int:
        """The sum that the RDY counts may have now."""
        return self.max_in_flight if self._ceiling == NORMAL else min(self._ceiling, self.max_in_flight)

    @property
    def is_starved(self) -> bool:
        """Whether some connection holds nearly all messages it may hold."""
        return any(len(w.in_flight) >= max(STARVED_SHARE * w.rdy, 1) for w in self.windows)

    def add(self, window: Window, now_s: float) -> list[Change]:
        window.changed_s = now_s
        self.windows.append(window)
        return self._settle(now_s)

    def remove(self, window: Window, now_s: float) -> list[Change]:
        """The connection is lost, or may not be given RDY any more."""
        self.windows.remove(window)
        return self._settle(now_s)

    def first_message(self, window: Window, now_s: float) -> list[Change]:
        window.is_new = False
        return self._settle(now_s)

    def set_max_in_flight(self, max_in_flight: int, now_s: float) -> list[Change]:
        self.max_in_flight = max_in_flight
        return self._settle(now_s)

    def close(self, now_s: float) -> list[Change]:
        """Nothing for anybody: a backoff pause begins."""
        self._ceiling = 0
        return self._settle(now_s)

    def probe(self, now_s: float) -> list[Change]:
        """One message for somebody, or for the first connection that comes: a backoff pause is over."""
        self._ceiling = 1
        self._note_rotation()
        idle = [window for window in self.windows if not window.in_flight] or self.windows
        if not self.is_rotating:
            return self._settle(now_s)
        lucky = idle[int(self._chance() * len(idle))]
        return self._apply(self._permits([lucky], now_s), now_s)

    def open(self, now_s: float) -> list[Change]:
        """Backoff is over."""
        self._ceiling = NORMAL
        return self._settle(now_s)

    def rotate(self, now_s: float) -> list[Change]:
        """To be called every `rdy_redistribute_interval`."""
        if not self.is_rotating:
            return []
        keeping = [window for window in self.windows if window.rdy and not self._is_over(window, now_s)]
        return self._apply(self._permits(keeping, now_s), now_s)

    def answered(self, window: Window, now_s: float) -> list[Change]:
        """A message of `window` left its `in_flight`; to be called while `is_rotating`."""
        keeping = [other for other in self.windows if other.rdy]
        if window.rdy and not window.in_flight and self._has_heir(now_s):
            keeping.remove(window)
            window.is_idle = False
        return self._apply(self._permits(keeping, now_s), now_s)

    def _is_over(self, window: Window, now_s: float) -> bool:
        quiet_s = now_s - max(window.last_message_s, window.changed_s)
        if quiet_s > self._idle_timeout_s:
            window.is_idle = window.last_message_s < window.changed_s
            return True
        if now_s - window.changed_s > self._low_rdy_timeout_s:
            window.is_idle = False
            return True
        return False

    def _is_heir(self, window: Window, now_s: float) -> bool:
        return not window.is_idle or now_s - window.changed_s > self._low_rdy_timeout_s

    def _has_heir(self, now_s: float) -> bool:
        return any(not w.rdy and not w.in_flight and self._is_heir(w, now_s) for w in self.windows)

    def _settle(self, now_s: float) -> list[Change]:
        self._note_rotation()
        if not self.is_rotating:
            return self._apply(self._shares(), now_s)
        holders = sorted((w for w in self.windows if w.rdy), key=lambda w: -w.last_message_s)
        return self._apply(self._permits(holders[: self.limit], now_s), now_s)

    def _note_rotation(self) -> None:
        self.is_rotating = 0 < self.limit < len(self.windows)

    def _shares(self) -> dict[Window, int]:
        """Equal parts of the limit with the remainder; what one may not have goes to the others."""
        targets: dict[Window, int] = {}
        left = self.limit
        by_room = sorted(self.windows, key=_room)
        for position, window in enumerate(by_room):
            targets[window] = min(_room(window), left // (len(by_room) - position))
            left -= targets[window]
        return targets

    def _permits(self, keeping: Sequence[Window], now_s: float) -> dict[Window, int]:
        """RDY 1 for those that keep it, and for the best of the others while permits are left."""
        targets = dict.fromkeys(self.windows, 0) | dict.fromkeys(keeping, 1)
        losing = {window for window in self.windows if window.rdy and not targets[window]}
        others = [window for window in self.windows if not targets[window]]
        free = self.limit - len(keeping)
        if self._ceiling == NORMAL:
            # Unanswered messages count against the limit even where the permit is gone.
            free -= sum(len(window.in_flight) for window in others)
        others.sort(
            key=lambda window: (
                window in losing,
                bool(window.in_flight),
                not self._is_heir(window, now_s),
                window.changed_s,
            )
        )
        for window in others[: max(free, 0)]:
            targets[window] = 1
            if window in losing:  # gets its own permit back, as nobody else waits
                window.changed_s = now_s
        return targets

    def _apply(self, targets: dict[Window, int], now_s: float) -> list[Change]:
        changes = [(window, rdy) for window, rdy in targets.items() if rdy != window.rdy]
        changes.sort(key=lambda change: change[1] > change[0].rdy)
        for window, rdy in changes:
            if (rdy == 0) != (window.rdy == 0):
                window.changed_s = now_s
            window.rdy = rdy
        return changes


def _room(window: Window) -> int:
    return min(window.max_rdy, 1) if window.is_new else window.max_rdy
