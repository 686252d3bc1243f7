"""The line of `--status-every`: how long the last messages took. Durations are arguments."""

import math
from collections.abc import Sequence

FEW = 100
AGGREGATE = "[aggregate]:"


def percentile(sorted_values: Sequence[float], percent: float) -> float:
    """As NSQ picks it: no interpolation, and one place higher than most would."""
    index = math.ceil(percent / 100 * len(sorted_values) + 0.5)
    return sorted_values[min(index, len(sorted_values) - 1)]


class DurationRing:
    """The last `size` durations; a report each time the ring is full and begins again."""

    def __init__(self, size: int, label: str) -> None:
        self._size, self._label = size, label
        self._durations_s: list[float] = []
        self._position = 0

    def add(self, duration_s: float) -> str | None:
        """The report when this one overwrites the first of a full ring."""
        if len(self._durations_s) < self._size:
            self._durations_s.append(duration_s)
            return None
        is_wrapping = self._position == 0
        self._durations_s[self._position] = duration_s
        self._position = (self._position + 1) % self._size
        return self._report() if is_wrapping else None

    def _report(self) -> str:
        ordered = sorted(self._durations_s)
        figures = (percentile(ordered, 99), percentile(ordered, 95), sum(ordered) / len(ordered))
        slow, less_slow, average = (f"{figure * 1000:.2f}ms" for figure in figures)
        count = len(ordered)
        return f"{self._label} finished {count} - 99th: {slow} - 95th: {less_slow} - avg: {average}"


class StatusReport:
    """One ring for all addresses together and, if there are several, one for each."""

    def __init__(self, every: int, addresses: Sequence[str]) -> None:
        self._every = every
        self._all = DurationRing(max(every, 0), AGGREGATE)
        distinct = list(dict.fromkeys(addresses)) if len(addresses) > 1 else []
        self._by_address = {address: DurationRing(max(every, 0), f"[{address}]:") for address in distinct}

    @property
    def warnings(self) -> list[str]:
        """One per ring that is too small for its percentiles."""
        if not 0 < self._every < FEW:
            return []
        text = "Warning: use more than 100 status values for accurate percentiles"
        return [f"{text} (configured with {self._every})"] * (1 + len(self._by_address))

    def add(self, duration_s: float, address: str | None = None) -> list[str]:
        """Count for all together, and for `address`; the lines that are due."""
        return [*self.add_for_address(duration_s, address), *self._lines(self._all, duration_s)]

    def add_for_address(self, duration_s: float, address: str | None) -> list[str]:
        return self._lines(self._by_address.get(address or ""), duration_s)

    def _lines(self, ring: DurationRing | None, duration_s: float) -> list[str]:
        line = ring.add(duration_s) if ring is not None and self._every > 0 else None
        return [] if line is None else [line]
