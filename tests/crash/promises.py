"""What a broker did and what it promised, by the time it did so, to be compared with what a disk gives back.

Times are positions in the trace of a `SimFiles`. What was begun before a power loss may be found afterwards;
what was promised before it must be.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

NEVER = 1 << 60
Bodies = dict[int, bytes]


@dataclass
class Block:
    base: int
    bodies: list[bytes]
    due_ns: int
    begun: int
    done: int = NEVER

    @property
    def messages(self) -> Bodies:
        return dict(enumerate(self.bodies, self.base))


@dataclass
class Existence:
    """Something that is made and deleted, each begun at one time and promised at a later one."""

    name: str
    begun: int
    made: int = NEVER
    leaving: int = NEVER
    gone: int = NEVER

    def must_exist(self, when: int) -> bool:
        return self.made <= when < self.leaving

    def may_exist(self, when: int) -> bool:
        return self.begun < when < self.gone


@dataclass
class ChannelLife(Existence):
    start: int = 0
    dropped: dict[int, int] = field(default_factory=dict)  # offset -> when it began to be finished or emptied
    settled: dict[int, int] = field(default_factory=dict)  # offset -> when that was durable


@dataclass
class TopicLife(Existence):
    uuid: bytes = b""
    blocks: list[Block] = field(default_factory=list)
    synced: list[tuple[int, int]] = field(default_factory=list)  # (when, every offset below this)
    dropped: dict[int, int] = field(default_factory=dict)  # offset -> when it was retired, or its sync failed
    channels: list[ChannelLife] = field(default_factory=list)
    used: int = 0  # offsets below it were given out before the trace began

    def synced_below(self, when: int) -> int:
        return max((upto for at, upto in self.synced if at <= when), default=0)

    def known(self, when: int) -> Bodies:
        """Everything that may be found."""
        return {at: body for block in self._begun(when) for at, body in block.messages.items()}

    def promised(self, when: int) -> set[int]:
        """What must be found in the log."""
        below = self.synced_below(when)
        return {at for at in self.known(when) if at < below and self.dropped.get(at, NEVER) >= when}

    def owed(self, channel: ChannelLife, when: int) -> set[int]:
        """What the channel must still deliver."""
        promised = self.promised(when)
        return {at for at in promised if at >= channel.start and channel.dropped.get(at, NEVER) >= when}

    def due(self, when: int) -> dict[int, int]:
        return {at: block.due_ns for block in self._begun(when) if block.due_ns for at in block.messages}

    def groups(self, when: int) -> list[set[int]]:
        return [set(block.messages) for block in self._begun(when)]

    def used_below(self, when: int) -> int:
        """No offset at or above it was given out: a client sees an offset after it was written."""
        done = (block for block in self.blocks if block.done <= when)
        return max([self.used, *(block.base + len(block.bodies) for block in done)])

    def channels_at(self, when: int) -> tuple[list[ChannelLife], list[ChannelLife]]:
        """Those that must be there, and those that may."""
        return (
            [channel for channel in self.channels if channel.must_exist(when)],
            [channel for channel in self.channels if channel.may_exist(when)],
        )

    def _begun(self, when: int) -> Iterator[Block]:
        return (block for block in self.blocks if block.begun < when)


@dataclass
class Promises:
    """All topics that ever were."""

    topics: list[TopicLife] = field(default_factory=list)

    def marks(self) -> list[int]:
        """The times at which what is expected changes."""
        found: set[int] = set()
        for topic in self.topics:
            for life in (topic, *topic.channels):
                found.update((life.begun + 1, life.made, life.leaving, life.gone))
            found.update(time for block in topic.blocks for time in (block.begun + 1, block.done))
            found.update(at for at, _ in topic.synced)
            found.update(at + 1 for at in topic.dropped.values())
            for channel in topic.channels:
                found.update(at + 1 for at in channel.dropped.values())
                found.update(channel.settled.values())
        return sorted(found)
