"""Showing the messages of topics until there are enough of one."""

import asyncio
from collections import Counter
from typing import Protocol

from nsqlake.apps.tool_support.errors import ToolError
from nsqlake.apps.tool_support.progress import Progress
from nsqlake.client.message import Message, Requeue
from nsqlake.runtime.addresses import error_text


class Writer(Protocol):
    async def write(self, data: bytes) -> None: ...


class OutputError(ToolError):
    """Standard output cannot be written to."""

    def __init__(self, error: OSError) -> None:
        super().__init__(f"ERROR: failed to write to os.Stdout - {error_text(error)}")


class Tail:
    """`handle` returns when the message is written; `ended` is set when there is no more to show."""

    def __init__(self, output: Writer, progress: Progress, *, limit: int, shows_topic: bool) -> None:
        self._output, self._progress = output, progress
        self._limit, self._shows_topic = limit, shows_topic
        self._taken: Counter[str] = Counter()
        self._written: Counter[str] = Counter()
        self.error: OutputError | None = None
        self.ended = asyncio.Event()

    async def handle(self, message: Message) -> None:
        topic = message.topic
        if self._is_enough(self._taken[topic]) or self.error is not None:
            raise Requeue(0, backoff=False)  # for whoever reads the channel next
        self._taken[topic] += 1
        prefix = f"{topic} | ".encode() if self._shows_topic else b""
        try:
            await self._output.write(prefix + message.body + b"\n")
        except OSError as error:
            self.error = self.error or OutputError(error)
            self.ended.set()
            raise Requeue(0, backoff=False) from error
        self._progress.add(1, len(message.body))
        self._written[topic] += 1
        if self._is_enough(self._written[topic]):
            self.ended.set()

    def _is_enough(self, count: int) -> bool:
        return 0 < self._limit <= count
