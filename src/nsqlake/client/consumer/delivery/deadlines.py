"""Message timeouts: touching those that must live on, letting go of those that nsqd took for lost."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from nsqlake.client.consumer.delivery.answers import Answers
from nsqlake.client.consumer.delivery.subscription import Subscription
from nsqlake.client.message import Message
from nsqlake.runtime.timers import Timer, Timers

GRACE_S: Final = 1.0  # a TOUCH reaches nsqd later than we counted it
MIN_WAIT_S: Final = 0.05


class Alarm:
    """One timer that is set to the earliest of the times it is asked for."""

    def __init__(self, timers: Timers, ring: Callable[[], None]) -> None:
        self._timers, self._ring = timers, ring
        self._timer: Timer | None = None
        self._at_s = 0.0

    def set(self, at_s: float) -> None:
        if self._timer is not None:
            if self._at_s <= at_s:
                return
            self._timer.cancel()
        self._at_s = at_s
        self._timer = self._timers.call_later(max(MIN_WAIT_S, at_s - self._timers.now_s()), self._go_off)

    def cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _go_off(self) -> None:
        self._timer = None
        self._ring()


class Deadlines:
    """Used on the loop only."""

    def __init__(self, answers: Answers, timers: Timers) -> None:
        self._answers, self._timers = answers, timers
        self._sources: set[Subscription] = set()
        self._expiry = Alarm(timers, self._expire)
        self._kept: set[Message] = set()
        self._touching = Alarm(timers, self._touch)

    def watch(self, source: Subscription, deadline_s: float) -> None:
        """Messages of `source` have come, with this deadline."""
        self._sources.add(source)
        self._expiry.set(deadline_s + GRACE_S)

    def keep_alive(self, message: Message) -> None:
        """Touch it at half of its time, until it is answered or nothing helps any more."""
        self._kept.add(message)
        self._touching.set(_touch_at_s(message))

    def let_expire(self, message: Message) -> None:
        self._kept.discard(message)

    def stop(self) -> None:
        self._expiry.cancel()
        self._touching.cancel()
        self._kept.clear()

    def _expire(self) -> None:
        now_s = self._timers.now_s()
        self._sources = {source for source in self._sources if not source.is_lost}
        for source in list(self._sources):
            for message in [held for held in source.in_flight if held.deadline_s + GRACE_S <= now_s]:
                self._answers.expire(message, is_held=True)
            source.overdue = {held for held in source.overdue if held.hard_deadline_s > now_s}
        ends_s = [held.deadline_s + GRACE_S for source in self._sources for held in source.in_flight]
        ends_s += [held.hard_deadline_s for source in self._sources for held in source.overdue]
        if ends_s:
            self._expiry.set(min(ends_s))

    def _touch(self) -> None:
        now_s = self._timers.now_s()
        for message in [kept for kept in self._kept if _touch_at_s(kept) <= now_s]:
            # At the hard limit nsqd delivers it again whatever we do.
            if not message.touch() or message.deadline_s >= message.hard_deadline_s:
                self._kept.discard(message)
        if self._kept:
            self._touching.set(min(map(_touch_at_s, self._kept)))


def _touch_at_s(message: Message) -> float:
    return message.deadline_s - message.source.msg_timeout_s / 2
