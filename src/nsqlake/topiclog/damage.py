"""Bytes that are not what was written: kept aside, counted, reported, never delivered."""

import os
from collections.abc import Iterable
from dataclasses import dataclass, field

from nsqlake.topiclog.files import Files, write_all

__all__ = ["Damage", "DamageCounter", "set_aside"]


@dataclass(frozen=True, slots=True)
class Damage:
    """One stretch of a segment that could not be read back."""

    path: str
    position: int
    bytes: int
    reason: str
    messages: int = 0  # as far as the offsets around it tell
    blocks: int = 1


@dataclass(slots=True)
class DamageCounter:
    """What was found since the log was opened; `pending` waits to be taken by whoever reports it."""

    blocks: int = 0
    messages: int = 0
    pending: list[Damage] = field(default_factory=list)

    def add(self, damage: Damage) -> None:
        self.blocks += damage.blocks
        self.messages += damage.messages
        self.pending.append(damage)

    def take(self) -> list[Damage]:
        taken, self.pending = self.pending, []
        return taken


def set_aside(files: Files, segment_path: str, kind: str, position: int, pieces: Iterable[bytes]) -> bool:
    """Keep a copy as `<segment>.<kind>-<position>`; False when that failed, for instance on a full disk."""
    path = f"{segment_path}.{kind}-{position}"
    try:
        fd = files.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        try:
            for piece in pieces:
                write_all(files, fd, piece)
        finally:
            files.close(fd)
    except OSError:
        return False
    return True
