"""Messages that were tried too often."""

from __future__ import annotations

import asyncio
import inspect
import logging
from typing import Any

from nsqlake.client.consumer.context import Context
from nsqlake.client.consumer.delivery.answers import Answers
from nsqlake.client.message import Message

logger = logging.getLogger(__name__)


class GivingUp:
    """The user's hook, then FIN; REQ if the hook fails, so that a failing dead-letter store loses nothing."""

    def __init__(self, context: Context, answers: Answers) -> None:
        self._context, self._answers = context, answers
        self._tasks: set[asyncio.Task[None]] = set()

    def is_inside(self, task: asyncio.Task[Any]) -> bool:
        return task in self._tasks

    def give_up(self, message: Message) -> None:
        logger.warning(
            "CONSUMER(%s): gives up id=%s attempts=%s", self._context.name, message.id, message.attempts
        )
        self._context.counters.given_up += 1
        if self._context.hooks.on_give_up is None:
            self._answers.finish(message, None)
            return
        task = asyncio.get_running_loop().create_task(self._ask_hook(message))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def cancel(self) -> None:
        for task in self._tasks:
            task.cancel()

    async def _ask_hook(self, message: Message) -> None:
        hook = self._context.hooks.on_give_up
        assert hook is not None
        try:
            if inspect.iscoroutinefunction(hook):
                await hook(message)
            else:
                result = await asyncio.to_thread(hook, message)
                if inspect.isawaitable(result):
                    await result
        except Exception:
            logger.exception("CONSUMER(%s): the give-up hook failed, id=%s", self._context.name, message.id)
            self._answers.requeue_failed(message)
        except asyncio.CancelledError:
            self._answers.put_back(message)
            raise
        else:
            # Neutral for backoff: it says nothing about how handling goes.
            self._answers.finish(message, None)
