"""Counting messages and bytes, and how fast they come; time is an argument."""

from dataclasses import dataclass

_UNITS = ("B", "kB", "MB", "GB", "TB")


@dataclass(frozen=True)
class Rates:
    message_count: int
    size_bytes: int
    messages_per_s: float  # since the sample before
    average_per_s: float  # since the start


class RateMeter:
    """Counts since `now_s`."""

    def __init__(self, now_s: float) -> None:
        self.message_count = 0
        self.size_bytes = 0
        self._start_s = now_s
        self._last_s = now_s
        self._last_count = 0

    def add(self, message_count: int = 1, size_bytes: int = 0) -> None:
        self.message_count += message_count
        self.size_bytes += size_bytes

    @property
    def has_news(self) -> bool:
        return self.message_count != self._last_count

    def sample(self, now_s: float) -> Rates:
        recent = _per_second(self.message_count - self._last_count, now_s - self._last_s)
        average = _per_second(self.message_count, now_s - self._start_s)
        self._last_s, self._last_count = now_s, self.message_count
        return Rates(self.message_count, self.size_bytes, recent, average)


def _per_second(count: int, elapsed_s: float) -> float:
    return count / elapsed_s if elapsed_s > 0 else 0.0


def size_text(size_bytes: float) -> str:
    """`512 B`, `1.5 MB`: three significant digits or so, powers of 1000."""
    for unit in _UNITS:
        if size_bytes < 1000 or unit == _UNITS[-1]:
            break
        size_bytes /= 1000
    return f"{size_bytes:.0f} {unit}" if unit == "B" else f"{size_bytes:.1f} {unit}"


def rates_text(verb: str, rates: Rates, *, is_final: bool = False) -> str:
    """`published 12,000 messages (2.4 MB), 4,000/s`."""
    per_s = rates.average_per_s if is_final else rates.messages_per_s
    noun = "message" if rates.message_count == 1 else "messages"
    size = f" ({size_text(rates.size_bytes)})" if rates.size_bytes else ""
    return f"{verb} {rates.message_count:,} {noun}{size}, {per_s:,.0f}/s"
