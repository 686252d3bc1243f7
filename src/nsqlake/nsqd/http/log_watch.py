"""Readers that wait for a log to grow.

Asking costs less than being told: that would be a check for every publish, all life long. One timer asks for
all readers, and only while there are any.
"""

import asyncio
from dataclasses import dataclass

from nsqlake.nsqd.broker import Broker
from nsqlake.nsqd.live_topic import LiveTopic

__all__ = ["MAX_WAITING", "LogWatch"]

ASK_EVERY_S = 0.005
MAX_WAITING = 10_000  # who comes later need not wait


@dataclass(frozen=True, slots=True, eq=False)
class _Waiting:
    topic: LiveTopic
    offset: int
    deadline_s: float
    done: "asyncio.Future[None]"


class LogWatch:
    """Everybody who waits for something new in a log."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._waiting: list[_Waiting] = []
        self._timer: asyncio.TimerHandle | None = None

    async def wait(self, topic: LiveTopic, offset: int, limit_s: float) -> None:
        """Until the log has a message at or behind `offset`, the topic or the daemon ends, or `limit_s`."""
        loop = asyncio.get_running_loop()
        waiting = _Waiting(topic, offset, loop.time() + limit_s, loop.create_future())
        if len(self._waiting) >= MAX_WAITING or self._is_over(waiting, loop.time()):
            return
        self._waiting.append(waiting)
        if self._timer is None:
            self._timer = loop.call_later(ASK_EVERY_S, self._ask)
        await waiting.done

    def _ask(self) -> None:
        loop = asyncio.get_running_loop()
        now_s = loop.time()
        over = [each for each in self._waiting if self._is_over(each, now_s)]
        for each in over:
            if not each.done.done():
                each.done.set_result(None)
        if over:
            gone = set(over)
            self._waiting = [each for each in self._waiting if each not in gone]
        self._timer = loop.call_later(ASK_EVERY_S, self._ask) if self._waiting else None

    def _is_over(self, waiting: _Waiting, now_s: float) -> bool:
        core = waiting.topic.core
        return (
            core.log.next > waiting.offset
            or core.is_closed
            or self._broker.is_exiting
            or now_s >= waiting.deadline_s
            or waiting.done.done()
        )
