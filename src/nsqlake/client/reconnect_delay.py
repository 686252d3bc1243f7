"""How long to wait before the next attempt to connect to an nsqd; pure: time and chance are arguments."""

from __future__ import annotations

from typing import Final

STABLE_AFTER_S: Final = 5.0  # a connection that lasted this long was a success


class ReconnectDelay:
    """Doubles with every failure up to `max_s`; `chance` in [0, 1) spreads the clients of one nsqd."""

    def __init__(self, min_s: float, max_s: float) -> None:
        self._min_s, self._max_s = min_s, max_s
        self.failures = 0
        self._ready_at_s: float | None = None

    def ready(self, now_s: float) -> None:
        """The handshake is done. Not yet a success: nsqd may close at once, again and again."""
        self._ready_at_s = now_s

    def proven(self) -> None:
        """The connection was of use: the next failure is a first one."""
        self.failures = 0

    def after_failure(self, now_s: float, chance: float, *, permanent: bool = False) -> float:
        """Seconds to wait after a refused attempt or a lost connection; what is `permanent` waits longest."""
        if self._ready_at_s is not None and now_s - self._ready_at_s >= STABLE_AFTER_S:
            self.failures = 0
        self._ready_at_s = None
        full_s = self._max_s if permanent else min(self._max_s, self._min_s * 2 ** min(self.failures, 64))
        self.failures += 1
        return full_s * (0.5 + 0.5 * chance)
