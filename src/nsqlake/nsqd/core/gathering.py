"""Single publishes of one turn of the event loop, gathered into a few blocks."""

from typing import Generic, TypeVar

from nsqlake.wire.command_reader import Messages

__all__ = ["GATHER_BYTES", "GatheredBlock", "Gathering"]

GATHER_BYTES = 64 * 1024  # of one block, so that damage to it stays small

Waiter = TypeVar("Waiter")


class GatheredBlock(Generic[Waiter]):
    """Records that become one block, and who waits for it."""

    __slots__ = ("_runs", "count", "parts", "record_size", "size", "waiters")

    def __init__(self) -> None:
        self.parts: list[bytes] = []
        self.waiters: list[Waiter] = []
        self.count = 0
        self.size = 0
        self.record_size = -1  # 0 once the records differ in size
        self._runs: dict[int, Messages] = {}  # parts of more than one record

    def add(self, messages: Messages, waiter: Waiter) -> None:
        if messages.count > 1:
            self._runs[len(self.parts)] = messages
        self.add_records(messages.records, messages.record_size, messages.count, waiter)

    def add_records(self, records: bytes, record_size: int, count: int, waiter: Waiter) -> None:
        if self.record_size != record_size:
            self.record_size = record_size if self.record_size < 0 else 0
        self.parts.append(records)
        self.waiters.append(waiter)
        self.count += count
        self.size += len(records)

    @property
    def records(self) -> bytes:
        return self.parts[0] if len(self.parts) == 1 else b"".join(self.parts)

    @property
    def starts(self) -> list[int] | None:
        """Where each record begins and the last ends, when they differ in size."""
        if self.record_size:
            return None
        starts = [0]
        for number, part in enumerate(self.parts):
            base, run = starts[-1], self._runs.get(number)
            if run is None:
                starts.append(base + len(part))
            elif run.starts is None:
                size = run.record_size
                starts.extend(range(base + size, base + size * run.count + 1, size))
            else:
                starts.extend([base + start for start in run.starts[1:]])
        return starts


class Gathering(Generic[Waiter]):
    """What was published singly to one topic since the last block was written."""

    __slots__ = ("blocks",)

    def __init__(self) -> None:
        self.blocks: list[GatheredBlock[Waiter]] = []

    def __bool__(self) -> bool:
        return bool(self.blocks)

    def add(self, messages: Messages, waiter: Waiter) -> None:
        self._block_for(len(messages.records)).add(messages, waiter)

    def add_one(self, record: bytes, waiter: Waiter) -> None:
        """`add` of a single record, flat: fifty publishers come here for every message."""
        size = len(record)
        block = self._block_for(size)
        if block.record_size != size:
            block.record_size = size if block.record_size < 0 else 0
        block.parts.append(record)
        block.waiters.append(waiter)
        block.count += 1
        block.size += size

    def _block_for(self, size: int) -> GatheredBlock[Waiter]:
        blocks = self.blocks
        if not blocks or (blocks[-1].size + size > GATHER_BYTES and blocks[-1].size):
            blocks.append(GatheredBlock())
        return blocks[-1]

    def take(self) -> list[GatheredBlock[Waiter]]:
        blocks, self.blocks = self.blocks, []
        return blocks
