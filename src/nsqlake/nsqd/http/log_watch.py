"""Readers that wait for a log to grow.

Asking costs less than being told: that would be a check for every publish, all life long. One timer asks for
all readers, and only while there are any; one question for all who wait at the end of the same log.
"""

import asyncio

from nsqlake.nsqd.broker import Broker
from nsqlake.nsqd.live_topic import LiveTopic

__all__ = ["MAX_WAITING", "LogWatch"]

ASK_EVERY_S = 0.005
MAX_WAITING = 10_000  # who comes later need not wait

_Place = tuple[LiveTopic, int]  # an offset in its log
_Crowd = set["asyncio.Future[None]"]


class LogWatch:
    """Everybody who waits for something new in a log."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._crowds: dict[_Place, _Crowd] = {}
        self._count = 0
        self._timer: asyncio.TimerHandle | None = None

    async def wait(self, topic: LiveTopic, offset: int, limit_s: float) -> None:
        """Until the log has a message at or behind `offset`, the topic or the daemon ends, or `limit_s`."""
        place = topic, offset
        if self._count >= MAX_WAITING or self._is_over(place):
            return
        loop = asyncio.get_running_loop()
        woken: asyncio.Future[None] = loop.create_future()
        self._crowds.setdefault(place, set()).add(woken)
        self._count += 1
        if self._timer is None:
            self._timer = loop.call_later(ASK_EVERY_S, self._ask)
        try:
            await asyncio.wait((woken,), timeout=limit_s)
        finally:
            self._leave(place, woken)

    def _leave(self, place: _Place, woken: "asyncio.Future[None]") -> None:
        self._count -= 1
        crowd = self._crowds.get(place, set())
        crowd.discard(woken)
        if not crowd:
            self._crowds.pop(place, None)

    def _ask(self) -> None:
        for place in [place for place in self._crowds if self._is_over(place)]:
            for woken in self._crowds.pop(place):
                woken.set_result(None)
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(ASK_EVERY_S, self._ask) if self._crowds else None

    def _is_over(self, place: _Place) -> bool:
        topic, offset = place
        return topic.core.log.next > offset or topic.core.is_closed or self._broker.is_exiting
