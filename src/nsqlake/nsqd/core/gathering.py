"""Single publishes of one turn of the event loop, gathered into a few blocks."""

from typing import Generic, TypeVar

from nsqlake.wire.command_reader import Messages

__all__ = ["GATHER_BYTES", "GatheredBlock", "Gathering"]

GATHER_BYTES = 64 * 1024  # of one block, so that damage to it stays small

Waiter = TypeVar("Waiter")


class GatheredBlock(Generic[Waiter]):
    """Records that become one block, and who waits for how many answers."""

    __slots__ = ("count", "parts", "record_size", "size", "waiters")

    def __init__(self) -> None:
        self.parts: list[Messages] = []
        self.waiters: list[tuple[Waiter, int]] = []
        self.count = 0
        self.size = 0
        self.record_size = -1  # 0 once the records differ in size

    def add(self, messages: Messages, waiter: Waiter) -> None:
        if self.record_size != messages.record_size:
            self.record_size = messages.record_size if self.record_size < 0 else 0
        self.parts.append(messages)
        self.waiters.append((waiter, messages.commands))
        self.count += messages.count
        self.size += len(messages.records)

    @property
    def records(self) -> bytes:
        return self.parts[0].records if len(self.parts) == 1 else b"".join([p.records for p in self.parts])

    @property
    def starts(self) -> list[int] | None:
        """Where each record begins and the last ends, when they differ in size."""
        if self.record_size:
            return None
        starts = [0]
        for part in self.parts:
            base = starts.pop()
            if part.starts is None:
                size = part.record_size
                starts.extend(range(base, base + size * part.count + 1, size))
            else:
                starts.extend([base + start for start in part.starts])
        return starts


class Gathering(Generic[Waiter]):
    """What was published singly to one topic since the last block was written."""

    __slots__ = ("blocks",)

    def __init__(self) -> None:
        self.blocks: list[GatheredBlock[Waiter]] = []

    def __bool__(self) -> bool:
        return bool(self.blocks)

    def add(self, messages: Messages, waiter: Waiter) -> None:
        blocks = self.blocks
        if not blocks or (blocks[-1].size + len(messages.records) > GATHER_BYTES and blocks[-1].size):
            blocks.append(GatheredBlock())
        blocks[-1].add(messages, waiter)

    def take(self) -> list[GatheredBlock[Waiter]]:
        blocks, self.blocks = self.blocks, []
        return blocks
