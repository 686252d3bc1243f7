"""How much one log may take: file size, memory, and what must stay free on the disk."""

from dataclasses import dataclass

__all__ = ["LogOptions"]


@dataclass(frozen=True, slots=True)
class LogOptions:
    """The limits of one topic's log."""

    max_bytes_per_file: int = 100 * 1024 * 1024
    mem_messages: int = 10_000
    mem_bytes: int = 64 * 1024 * 1024
    min_free_bytes: int = 0
