"""How long a requeued message stays away."""

from __future__ import annotations

import math
from datetime import timedelta

from nsqlake.client.errors import InvalidArgumentError
from nsqlake.client.message import Delay


def requeue_delay_ms(delay: Delay, attempts: int, *, default_s: float, max_s: float) -> int:
    """What the caller said; without it `default_s` for every attempt so far, at most `max_s`."""
    if delay is None:
        return round(min(default_s * attempts, max_s) * 1000)
    delay_s = delay.total_seconds() if isinstance(delay, timedelta) else delay
    if not math.isfinite(delay_s) or delay_s < 0:
        raise InvalidArgumentError("delay", delay, "must be a number of seconds, not below 0")
    return round(delay_s * 1000)
