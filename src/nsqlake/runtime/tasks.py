"""Background tasks that have a name, never fail silently and end with the daemon."""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

logger = logging.getLogger(__name__)

DEFAULT_CLOSE_LIMIT_S = 5.0
RESTART_PAUSE_S = 1.0


class TaskSupervisor:
    """Owns every task of a daemon; a task that fails is logged with its traceback, the others go on."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()
        self._closing = False
        self.failure_count = 0

    def __len__(self) -> int:
        return len(self._tasks)

    def spawn(self, coroutine: Coroutine[Any, Any, object], name: str) -> asyncio.Task[None]:
        """Run `coroutine`; its result is dropped. RuntimeError once `close` has begun."""
        if self._closing:
            coroutine.close()
            raise RuntimeError(f"task {name} was started after the supervisor closed")
        task = asyncio.get_running_loop().create_task(self._run(coroutine, name), name=name)
        self._tasks.add(task)
        # A task cancelled before its first step never enters `_run`, and nobody else ends its coroutine.
        task.add_done_callback(lambda _: coroutine.close())
        task.add_done_callback(self._tasks.discard)
        return task

    def keep(
        self,
        begin: Callable[[], Coroutine[Any, Any, object]],
        name: str,
        *,
        pause_s: float = RESTART_PAUSE_S,
    ) -> asyncio.Task[None]:
        """Run what must never end, and begin it again after a failure: the daemon cannot do without it."""
        return self.spawn(self._keep(begin, name, pause_s), name)

    async def _keep(
        self, begin: Callable[[], Coroutine[Any, Any, object]], name: str, pause_s: float
    ) -> None:
        while True:
            await self._run(begin(), name)
            await asyncio.sleep(pause_s)

    async def close(self, limit_s: float = DEFAULT_CLOSE_LIMIT_S) -> list[str]:
        """Cancel every task and wait up to `limit_s`; the names of those that still run are returned."""
        self._closing = True
        tasks = self._tasks - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        if not tasks:
            return []
        _, pending = await asyncio.wait(tasks, timeout=limit_s)
        names = sorted(task.get_name() for task in pending)
        for name in names:
            logger.error("TASK(%s): ignored its cancellation limit_s=%s", name, limit_s)
        return names

    async def _run(self, coroutine: Coroutine[Any, Any, object], name: str) -> None:
        try:
            await coroutine
        except Exception:
            self.failure_count += 1
            logger.exception("TASK(%s): failed", name)
