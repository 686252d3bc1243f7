"""Which channel has to be looked at when: a heap with at most one live entry per channel."""

from heapq import heappop, heappush

from nsqlake.nsqd.live_topic import LiveChannel

__all__ = ["Alarms"]


class Alarms:
    """The wake-up times of all channels."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, LiveChannel]] = []

    def update(self, channel: LiveChannel) -> bool:
        """Take over when the channel wants to be woken; whether that is sooner than before."""
        when_ns = channel.core.next_wakeup_ns
        if when_ns is None or (channel.alarm_ns is not None and channel.alarm_ns <= when_ns):
            return False
        channel.alarm_ns = when_ns
        heappush(self._heap, (when_ns, id(channel), channel))
        return True

    @property
    def next_ns(self) -> int | None:
        while self._heap and self._heap[0][2].alarm_ns != self._heap[0][0]:
            heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def pop_due(self, now_ns: int) -> list[LiveChannel]:
        due: list[LiveChannel] = []
        while (when_ns := self.next_ns) is not None and when_ns <= now_ns:
            channel = heappop(self._heap)[2]
            channel.alarm_ns = None
            if not channel.core.is_closed:
                due.append(channel)
        return due
