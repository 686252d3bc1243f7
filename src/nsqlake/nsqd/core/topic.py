"""A topic: one log, its channels, and how far messages flow to them."""

from collections.abc import Callable, Sequence
from typing import Protocol

from nsqlake.nsqd.core.backlog import Backlog, Log
from nsqlake.nsqd.core.channel import Channel, ChannelLimits
from nsqlake.nsqd.core.ledger import Ledger

__all__ = ["Topic", "WritableLog"]


class WritableLog(Log, Protocol):
    """What a topic needs of its log beside reading."""

    def append(
        self,
        records: bytes,
        count: int,
        *,
        timestamp_ns: int,
        record_size: int = 0,
        starts: Sequence[int] | None = None,
        due_ns: int = 0,
    ) -> int: ...
    def append_one(self, record: bytes, timestamp_ns: int) -> int: ...
    def trim_memory(self, passed: int) -> None: ...
    def retire(self, needed: Callable[[int, int], bool]) -> list[str]: ...


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
    ) -> None:
        self.name = name
        self.log = log
        self.backlog = Backlog(log, log.next if fanout is None else fanout, emptied)
        self.channels: dict[str, Channel] = {}
        self.is_paused = False
        self.is_closed = False
        self.message_count = 0
        self.message_bytes = 0
        self._id_base, self._limits, self._random = id_base, limits, random

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
    ) -> int:
        """Append one block; returns its base offset. On the log's AppendError nothing has changed."""
        base = self.log.append(
            records, count, timestamp_ns=timestamp_ns, record_size=record_size, starts=starts, due_ns=due_ns
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

    def add_channel(self, name: str, now_ns: int) -> Channel:
        """A new channel begins at `fanout`: the first one gets the backlog, later ones what comes after."""
        channel = self.restore_channel(name, Ledger(self._id_base, self.backlog.fanout))
        self.flow(now_ns)
        channel.absorb_due(now_ns)
        return channel

    def restore_channel(self, name: str, ledger: Ledger) -> Channel:
        channel = Channel(name, self.backlog, ledger, self._limits, self._random)
        self.channels[name] = channel
        return channel

    def new_ledger(self, cursor: int) -> Ledger:
        return Ledger(self._id_base, cursor)

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

    # Storage ------------------------------------------------------------------------------------------

    def needs(self, base: int, end: int) -> bool:
        """Whether any message in [base, end) is still to be delivered to or finished by a channel."""
        if self.backlog.fanout < end:
            return True
        return any(channel.ledger.holds(base, end) for channel in self.channels.values())

    def retire(self) -> list[str]:
        """Delete what no channel needs any more; returns the files removed."""
        removed = self.log.retire(self.needs)
        self.backlog.forget_before(self.log.oldest)
        return removed

    def trim(self) -> None:
        """Forget in memory what every channel has passed."""
        cursors = [channel.ledger.cursor for channel in self.channels.values()]
        self.log.trim_memory(min([self.backlog.fanout, *cursors]))
