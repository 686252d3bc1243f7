"""What a topic and its channels should do, said as plainly as possible: every message is one entry."""

import copy
from dataclasses import dataclass, field
from enum import Enum


class Where(Enum):
    QUEUED = "queued"
    OUT = "out"
    DEFERRED = "deferred"


@dataclass
class Entry:
    """One message in one channel."""

    where: Where
    attempts: int = 0
    owner: str = ""
    sent_ns: int = 0
    deadline_ns: int = 0
    due_ns: int = 0


Entries = dict[int, Entry]


@dataclass
class ModelChannel:
    """`entries` has every message that is not finished; `written` what the journal says, newest last."""

    entries: Entries = field(default_factory=dict)
    written: list[tuple[Entries, set[int], int]] = field(default_factory=list)
    arrived: set[int] = field(default_factory=set)
    due_of: dict[int, int] = field(default_factory=dict)
    is_paused: bool = False
    floor: int = 0  # what flows later but lies below is not for this channel
    count: int = 0  # since the last start
    timeouts: int = 0
    requeues: int = 0

    def arrive(self, offset: int, due_ns: int) -> None:
        if offset >= self.floor:
            self.entries[offset] = Entry(Where.DEFERRED if due_ns else Where.QUEUED, due_ns=due_ns)
        self.arrived.add(offset)
        self.count += 1

    def among(self, where: Where, owner: str | None = None) -> list[int]:
        return sorted(
            offset
            for offset, entry in self.entries.items()
            if entry.where is where and (owner is None or entry.owner == owner)
        )

    def deliver(self, offset: int, owner: str, now_ns: int, timeout_ns: int) -> int:
        entry = self.entries[offset]
        assert entry.where is Where.QUEUED
        entry.where, entry.owner, entry.attempts = Where.OUT, owner, entry.attempts + 1
        entry.sent_ns, entry.deadline_ns = now_ns, now_ns + timeout_ns
        return entry.attempts

    def put_back(self, offset: int, due_ns: int = 0) -> None:
        entry = self.entries[offset]
        entry.where, entry.owner, entry.due_ns = Where.DEFERRED if due_ns else Where.QUEUED, "", due_ns

    def touch(self, offset: int, now_ns: int, timeout_ns: int, max_ns: int) -> None:
        entry = self.entries[offset]
        entry.deadline_ns = min(now_ns + timeout_ns, entry.sent_ns + max_ns)

    def next_event_ns(self) -> int | None:
        times = [entry.deadline_ns for entry in self.entries.values() if entry.where is Where.OUT]
        times += [entry.due_ns for entry in self.entries.values() if entry.where is Where.DEFERRED]
        return min(times, default=None)

    def expire(self, now_ns: int) -> None:
        expired = [o for o in self.among(Where.OUT) if self.entries[o].deadline_ns <= now_ns]
        for offset in expired:
            self.put_back(offset)
        for offset in self.among(Where.DEFERRED):
            if self.entries[offset].due_ns <= now_ns:
                self.put_back(offset)
        self.timeouts += len(expired)

    def empty(self) -> None:
        self.entries.clear()

    def seek(self, offset: int, flowed: list[int], now_ns: int) -> None:
        """`flowed` is all that channels may be sent by now."""
        self.floor = offset
        self.entries = {
            at: Entry(Where.DEFERRED if self.due_of[at] > now_ns else Where.QUEUED, due_ns=self.due_of[at])
            for at in flowed
            if at >= offset
        }

    def commit(self, offset: int) -> None:
        self.floor = max(self.floor, offset)
        self.entries = {at: entry for at, entry in self.entries.items() if at >= offset}

    # Restarts

    def write(self) -> None:
        """The journal now says what is true now; one older state may still be found in it."""
        self.written = [*self.written[-1:], (copy.deepcopy(self.entries), set(self.arrived), self.floor)]

    def restart(self, back: int = 1) -> None:
        """Go back to what was written; what arrived since is new again, what was out is queued."""
        written, known, self.floor = self.written[-back]
        arrived = self.arrived
        self.entries = copy.deepcopy(written)
        self.written = [(copy.deepcopy(written), set(known), self.floor)]
        for entry in self.entries.values():
            if entry.where is Where.OUT:
                entry.where, entry.owner = Where.QUEUED, ""
        for offset in arrived - known:
            self.arrive(offset, self.due_of[offset])
        self.count = self.timeouts = self.requeues = 0


@dataclass
class ModelTopic:
    """`waiting` has what flows to no channel yet."""

    channels: dict[str, ModelChannel] = field(default_factory=dict)
    waiting: dict[int, int] = field(default_factory=dict)
    bodies: dict[int, bytes] = field(default_factory=dict)
    due: dict[int, int] = field(default_factory=dict)
    emptied: set[int] = field(default_factory=set)
    is_paused: bool = False

    def publish(self, base: int, bodies: list[bytes], due_ns: int) -> None:
        for offset, body in enumerate(bodies, base):
            assert offset not in self.bodies
            self.bodies[offset], self.due[offset], self.waiting[offset] = body, due_ns, due_ns
        self.flow()

    def flow(self) -> None:
        if self.is_paused or not self.channels:
            return
        for offset, due_ns in self.waiting.items():
            for channel in self.channels.values():
                channel.arrive(offset, due_ns)
        self.waiting.clear()

    def add_channel(self, name: str) -> None:
        self.channels[name] = ModelChannel(due_of=self.due)
        self.flow()
        self.channels[name].write()

    def empty(self) -> None:
        self.emptied |= set(self.waiting)
        self.waiting.clear()

    def flowed(self) -> list[int]:
        """What channels may be sent, if the log still holds it."""
        return [at for at in self.bodies if at not in self.waiting and at not in self.emptied]

    def lose(self, offsets: set[int]) -> None:
        """The disk lost these messages."""
        for offset in offsets:
            self.waiting.pop(offset, None)
            for channel in self.channels.values():
                channel.entries.pop(offset, None)
                channel.arrived.discard(offset)
                for entries, known, _floor in channel.written:
                    entries.pop(offset, None)
                    known.discard(offset)

    def live(self) -> set[int]:
        """Every message that somebody is still to finish."""
        return set(self.waiting).union(*(channel.entries for channel in self.channels.values()))
