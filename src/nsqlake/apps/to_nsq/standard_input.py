"""Reading a file descriptor without stopping the event loop while there is nothing to read."""

import asyncio
import contextlib
import os
import select
from collections.abc import AsyncIterator

CHUNK_BYTES = 256 * 1024


async def read_chunks(descriptor: int) -> AsyncIterator[bytes]:
    """What there is, until the end."""
    can_wait = _can_wait(descriptor)
    while True:
        if can_wait:
            await _wait_readable(descriptor)
        with contextlib.suppress(BlockingIOError):  # whoever gave it to us has made it non-blocking
            chunk = os.read(descriptor, CHUNK_BYTES)
            if not chunk:
                return
            yield chunk


def _can_wait(descriptor: int) -> bool:
    """Regular files are always ready, and epoll refuses them."""
    with select.epoll() as poll:
        try:
            poll.register(descriptor, select.EPOLLIN)
        except PermissionError:
            return False
    return True


async def _wait_readable(descriptor: int) -> None:
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    loop.add_reader(descriptor, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(descriptor)
