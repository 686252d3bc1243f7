"""How many messages per second may go; time is an argument."""


class TokenBucket:
    """Begins with one token and gains `rate` per second up to `rate`."""

    def __init__(self, rate: int, now_s: float) -> None:
        self._rate = rate
        self._tokens = 1.0
        self._filled_at_s = now_s

    def take(self, now_s: float) -> float:
        """Take a token; the seconds to wait before using it."""
        gained = max(0.0, now_s - self._filled_at_s) * self._rate
        self._tokens = min(self._tokens + gained, float(max(self._rate, 1))) - 1
        self._filled_at_s = now_s
        return max(0.0, -self._tokens / self._rate)
