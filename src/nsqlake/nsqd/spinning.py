"""Polling for the next request instead of sleeping, while requests come in quick succession.

Waking a sleeping process costs more than a request. But where there are not enough cores, polling takes the
processor from the very clients that are to send the next request, so it stops while the kernel has to push
this process aside.
"""

import asyncio
from resource import RUSAGE_SELF, getrusage
from time import monotonic_ns

__all__ = ["Spinning"]

_QUICK_SUCCESSION_NS = 200_000
_CHECK_INTERVAL_NS = 20_000_000
_REST_NS = 500_000_000
_MAX_PREEMPTIONS_PER_SECOND = 100


class Spinning:
    """Keeps the loop awake for up to `spin_ns` after an input; an idle daemon sleeps."""

    def __init__(self, loop: asyncio.AbstractEventLoop, spin_ns: int) -> None:
        self._loop, self._spin_ns = loop, spin_ns
        self._is_spinning = False
        self._last_ns = 0
        self._rests_until_ns = 0
        self._checked_ns = 0
        self._preemptions = 0

    def input_came(self) -> None:
        if not self._spin_ns:
            return
        now_ns = monotonic_ns()
        gap_ns, self._last_ns = now_ns - self._last_ns, now_ns
        if gap_ns < _QUICK_SUCCESSION_NS and not self._is_spinning and now_ns >= self._rests_until_ns:
            self._is_spinning = True
            self._loop.call_soon(self._spin)

    def _spin(self) -> None:
        now_ns = monotonic_ns()
        if now_ns - self._last_ns >= self._spin_ns or self._is_in_the_way(now_ns):
            self._is_spinning = False
        else:
            self._loop.call_soon(self._spin)

    def _is_in_the_way(self, now_ns: int) -> bool:
        """Whether others wanted this processor so often lately that polling does harm."""
        elapsed_ns = now_ns - self._checked_ns
        if elapsed_ns < _CHECK_INTERVAL_NS:
            return False
        preemptions = getrusage(RUSAGE_SELF).ru_nivcsw
        since, self._preemptions, self._checked_ns = preemptions - self._preemptions, preemptions, now_ns
        if since * 1_000_000_000 < _MAX_PREEMPTIONS_PER_SECOND * elapsed_ns:
            return False
        self._rests_until_ns = now_ns + _REST_NS
        return True
