"""From other threads to the event loop: one wake-up for many calls."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from threading import Lock, get_ident
from typing import Any


class Inbox:
    """Belongs to the loop that runs where it is made."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._thread_id = get_ident()
        self._calls: deque[tuple[Callable[..., object], tuple[Any, ...]]] = deque()
        self._is_woken = False
        self.lock = Lock()  # for who must do something and post in one step

    @property
    def is_foreign(self) -> bool:
        """Whether the caller is on another thread."""
        return get_ident() != self._thread_id

    def post(self, function: Callable[..., object], *arguments: Any) -> None:
        """Have it called soon, in the order of the posts; nothing happens when the loop is closed."""
        self._calls.append((function, arguments))
        # Looked at after the append, and reset before the calls are taken: none is left behind.
        if not self._is_woken:
            self._is_woken = True
            with suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(self._run)

    def _run(self) -> None:
        self._is_woken = False
        while self._calls:
            function, arguments = self._calls.popleft()
            function(*arguments)
