"""Writing to standard output from a thread: a reader who pauses must not stop the event loop."""

import asyncio
import os
from threading import Condition, Thread
from typing import Final

Waiting = tuple[bytes, "asyncio.Future[None]"]


class Output:
    """What is written while the thread is busy goes out with its next write, in order."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor: Final = descriptor
        self._loop = asyncio.get_running_loop()
        self._waiting: list[Waiting] = []
        self._changed = Condition()
        self._is_closed = False
        # A daemon: when nobody ever reads on, the process can still end.
        self._thread = Thread(target=self._run, name="output", daemon=True)
        self._thread.start()

    async def write(self, data: bytes) -> None:
        """Returns when all of it is written; OSError."""
        future: asyncio.Future[None] = self._loop.create_future()
        with self._changed:
            self._waiting.append((data, future))
            self._changed.notify()
        await future

    def close(self) -> None:
        """No more will be written."""
        with self._changed:
            self._is_closed = True
            self._changed.notify()

    def _run(self) -> None:
        while batch := self._take():
            error: OSError | None = None
            try:
                self._write(memoryview(b"".join(data for data, _ in batch)))
            except OSError as caught:
                error = caught
            self._loop.call_soon_threadsafe(_settle, batch, error)

    def _take(self) -> list[Waiting]:
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._is_closed)
            batch, self._waiting = self._waiting, []
            return batch

    def _write(self, data: memoryview) -> None:
        while data:
            data = data[os.write(self._descriptor, data) :]


def _settle(batch: list[Waiting], error: OSError | None) -> None:
    for _, future in batch:
        if not future.done():
            future.set_result(None) if error is None else future.set_exception(error)
