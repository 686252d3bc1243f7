"""Calling functions of the user that are told what happens; they can delay nothing and break nothing."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable
from typing import Any

logger = logging.getLogger(__name__)

Hook = Callable[..., Awaitable[object] | object]


class HookCalls:
    """Holds the tasks of hooks that are coroutines."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def is_inside(self, task: asyncio.Task[Any]) -> bool:
        """Whether `task` runs a hook."""
        return task in self._tasks

    def call(self, hook: Hook | None, *arguments: object) -> None:
        if hook is None:
            return
        try:
            result = hook(*arguments)
        except Exception:
            logger.exception("HOOK(%s): failed", hook_name(hook))
            return
        if inspect.isawaitable(result):
            task = asyncio.get_running_loop().create_task(self._wait(hook, result))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def finish(self, limit_s: float) -> None:
        """Let running hooks end, and cancel those that do not."""
        if self._tasks:
            _, late = await asyncio.wait(self._tasks, timeout=limit_s)
            for task in late:
                task.cancel()

    async def _wait(self, hook: Hook, result: Awaitable[object]) -> None:
        try:
            await result
        except Exception:
            logger.exception("HOOK(%s): failed", hook_name(hook))


def hook_name(hook: Hook) -> str:
    return getattr(hook, "__qualname__", repr(hook))
