"""A topic: one log, its channels, and how far messages flow to them."""

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from nsqlake.nsqd.core.backlog import Backlog, Log
from nsqlake.nsqd.core.channel import Channel, ChannelLimits
from nsqlake.nsqd.core.dead_letters import is_dead_topic
from nsqlake.nsqd.core.ledger import Ledger
from nsqlake.nsqd.core.seeking import SeekableLog
from nsqlake.topiclog.block import Span
from nsqlake.topiclog.raw_blocks import RawBlocks

__all__ = ["Topic", "WritableLog"]


class WritableLog(Log, SeekableLog, Protocol):
    """What a topic needs of its log beside reading."""

    @property
    def uuid(self) -> bytes: ...
    @property
    def salt(self) -> int: ...
    @property
    def epoch(self) -> int: ...
    @property
    def origin(self) -> int: ...
    def read_block(self, offset: int) -> Span | None: ...
    def size_marks(self, start: int, stop: int, step_bytes: int, most: int) -> list[tuple[int, int, int]]: ...
    def raw_blocks(self, offset: int, max_bytes: int, *, verified: bool = False) -> RawBlocks: ...
    def append(
        self,
        records: bytes,
        count: int,
        *,
        timestamp_ns: int,
        record_size: int = 0,
        starts: Sequence[int] | None = None,
        due_ns: int = 0,
        tag: bytes = b"",
    ) -> int: ...
    def append_one(self, record: bytes, timestamp_ns: int) -> int: ...
    def trim_memory(self, passed: int) -> None: ...
    def tags(self, start: int, stop: int) -> Iterator[tuple[int, int, bytes]]: ...
    def retire(
        self, needed: Callable[[int, int], bool], *, keep_bytes: int = 0, keep_after_ns: int | None = None
    ) -> list[str]: ...


class Topic:
    """Publishing appends to the log; `fanout` follows its end while there is a channel and no pause."""

    def __init__(
        self,
        name: str,
        log: WritableLog,
        *,
        id_base: int,
        limits: ChannelLimits,
        random: Callable[[], float],
        fanout: int | None = None,
        emptied: list[tuple[int, int]] | None = None,
        origin: int | None = None,
    ) -> None:
        self.name = name
        self.log = log
        self.backlog = Backlog(log, log.next if fanout is None else fanout, emptied)
        self.origin = log.origin if origin is None else origin  # of the log; 0 when nobody knows
        self.is_origin_unsaved = False
        self.channels: dict[str, Channel] = {}
        self.is_paused = False
        self.is_closed = False
        self.message_count = 0
        self.message_bytes = 0
        self.id_base, self._limits, self._random = id_base, limits, random

    @property
    def is_ephemeral(self) -> bool:
        return self.name.endswith("#ephemeral")

    @property
    def depth(self) -> int:
        """Messages that flow to no channel yet."""
        return self.backlog.count(self.backlog.fanout, self.log.next)

    @property
    def backend_depth(self) -> int:
        return self.backlog.count(self.backlog.fanout, min(self.log.memory_first, self.log.next))

    # Publishing ---------------------------------------------------------------------------------------

    def publish(
        self,
        records: bytes,
        count: int,
        *,
        timestamp_ns: int,
        record_size: int = 0,
        starts: Sequence[int] | None = None,
        due_ns: int = 0,
        tag: bytes = b"",
    ) -> int:
        """Append one block; returns its base offset. On the log's AppendError nothing has changed."""
        base = self.log.append(
            records,
            count,
            timestamp_ns=timestamp_ns,
            record_size=record_size,
            starts=starts,
            due_ns=due_ns,
            tag=tag,
        )
        self.message_count += count
        self.message_bytes += len(records) - 4 * count
        if due_ns or self.backlog.fanout != base:
            self.flow(timestamp_ns)
        elif self.channels and not self.is_paused:
            self.backlog.fanout = self.log.next
            self.backlog.flowed += count
        return base

    def publish_one(self, record: bytes, timestamp_ns: int) -> None:
        """`publish` of a single record that is due at once."""
        base = self.log.append_one(record, timestamp_ns)
        self.message_count += 1
        self.message_bytes += len(record) - 4
        if self.backlog.fanout != base:
            self.flow(timestamp_ns)
        elif self.channels and not self.is_paused:
            self.backlog.fanout = base + 1
            self.backlog.flowed += 1

    def note_published(self, records: bytes, count: int) -> None:
        """Messages were appended to the log that do not flow yet."""
        self.message_count += count
        self.message_bytes += len(records) - 4 * count

    def flow(self, now_ns: int) -> None:
        """Let messages flow to the channels, if they may."""
        if self.is_paused or not self.channels:
            return
        before, self.backlog.fanout = self.backlog.fanout, self.log.next
        self.backlog.flowed += self.backlog.count(before, self.backlog.fanout)
        if self.backlog.due_blocks(before, self.backlog.fanout):
            for channel in self.channels.values():
                channel.absorb_due(now_ns)

    # Channels -----------------------------------------------------------------------------------------

    def add_channel(self, name: str, now_ns: int, start: int | None = None) -> Channel:
        """A new channel begins at `fanout`: the first one gets the backlog, later ones what comes after.

        With `start` it begins there instead.
        """
        cursor = self.backlog.fanout if start is None else start
        channel = self.restore_channel(name, Ledger(self.id_base, cursor))
        self.flow(now_ns)
        channel.absorb_due(now_ns)
        return channel

    def restore_channel(self, name: str, ledger: Ledger) -> Channel:
        channel = Channel(name, self.backlog, ledger, self._limits, self._random)
        self.set_max_attempts(channel, None)
        self.channels[name] = channel
        return channel

    def set_max_attempts(self, channel: Channel, own: int | None) -> None:
        """How often a message is delivered before it is given up, 0 for ever; None: as the options say.

        Those are for topics that people publish to: a dead letter does not die again by default.
        """
        channel.own_max_attempts = own
        default = 0 if is_dead_topic(self.name) else self._limits.max_attempts
        channel.max_attempts = default if own is None else own

    def new_ledger(self, cursor: int) -> Ledger:
        return Ledger(self.id_base, cursor)

    def remove_channel(self, name: str) -> Channel | None:
        channel = self.channels.pop(name, None)
        if channel is not None:
            channel.is_closed = True
        return channel

    def pause(self) -> None:
        self.is_paused = True

    def unpause(self, now_ns: int) -> None:
        self.is_paused = False
        self.flow(now_ns)

    def empty(self) -> None:
        """Drop what flows to no channel yet; channels keep what they have."""
        self.backlog.skip(self.backlog.fanout, self.log.next)
        self.backlog.fanout = self.log.next

    def move_unused_origin(self) -> None:
        """After a restart: a log that never held a message begins anew, beyond the clock."""
        cursors = [channel.ledger.cursor for channel in self.channels.values()]
        is_unused = self.log.oldest == self.log.next and max([self.backlog.fanout, *cursors]) <= self.origin
        if is_unused and self.origin != self.log.origin:
            self.origin, self.is_origin_unsaved = self.log.origin, True

    # Storage ------------------------------------------------------------------------------------------

    def needs(self, base: int, end: int) -> bool:
        """Whether any message in [base, end) is still to be delivered to or finished by a channel."""
        if self.backlog.fanout < end:
            return True
        return any(channel.ledger.holds(base, end) for channel in self.channels.values())

    def retire(self, *, keep_bytes: int = 0, keep_after_ns: int | None = None) -> list[str]:
        """Delete what no channel needs any more and no rule keeps; returns the files removed."""
        removed = self.log.retire(self.needs, keep_bytes=keep_bytes, keep_after_ns=keep_after_ns)
        self.backlog.forget_before(self.log.oldest)
        return removed

    def trim(self) -> None:
        """Forget in memory what every channel has passed."""
        cursors = [channel.ledger.cursor for channel in self.channels.values()]
        self.log.trim_memory(min([self.backlog.fanout, *cursors]))
