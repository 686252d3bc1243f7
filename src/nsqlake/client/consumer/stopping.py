"""How a consumer stops: CLS, drain, close; and what happens when that takes too long."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from nsqlake.client.consumer.context import Context
from nsqlake.client.consumer.delivery.answers import Answers
from nsqlake.client.consumer.delivery.subscription import Subscription
from nsqlake.client.consumer.handling.giving_up import GivingUp
from nsqlake.client.consumer.handling.intake import Intake
from nsqlake.client.message import Message
from nsqlake.runtime.timers import deadline

logger = logging.getLogger(__name__)

LAST_WORDS_S: Final = 1.0  # for handlers that were cancelled, and for hooks


class Gate:
    """In front of the intake; once shut, what arrives goes back to nsqd."""

    def __init__(self, intake: Intake, answers: Answers) -> None:
        self._intake, self._answers = intake, answers
        self._is_shut = False

    def add(self, messages: list[Message]) -> None:
        if self._is_shut:
            self._put_back(messages)
        else:
            self._intake.add(messages)

    def shut(self) -> None:
        self._is_shut = True
        self._put_back(self._intake.take_unstarted())

    def _put_back(self, messages: list[Message]) -> None:
        for message in messages:
            self._answers.put_back(message)


class Draining:
    """Brings all connections to a good end, or to an end."""

    def __init__(
        self, context: Context, answers: Answers, intake: Intake, gate: Gate, giving_up: GivingUp
    ) -> None:
        self._context, self._answers = context, answers
        self._intake, self._gate, self._giving_up = intake, gate, giving_up
        self._hurry = asyncio.Event()

    def hurry(self) -> None:
        """As if the time were up."""
        self._hurry.set()

    async def drain(self, subscriptions: list[Subscription]) -> None:
        for subscription in subscriptions:
            subscription.begin_close()
        if self._context.config.drain == "requeue":
            # After CLS: nsqd would otherwise deliver them again, and to us.
            self._gate.shut()
        for subscription in subscriptions:
            subscription.close_if_drained()
        if not await self._in_time(lambda: self._drained(subscriptions), self._context.config.stop_timeout):
            await self._cut_off(subscriptions)
        for subscription in subscriptions:
            if not subscription.is_lost and subscription.connection is not None:
                subscription.connection.abort()
        await self._drained_connections(subscriptions)
        self._intake.close()

    async def _drained(self, subscriptions: list[Subscription]) -> None:
        await self._drained_connections(subscriptions)
        await self._intake.wait_idle()

    async def _drained_connections(self, subscriptions: list[Subscription]) -> None:
        for subscription in subscriptions:
            await subscription.ended.wait()

    async def _cut_off(self, subscriptions: list[Subscription]) -> None:
        """Cancel what runs, put back what can be, close."""
        self._hurry.clear()
        self._gate.shut()
        self._intake.cancel()
        self._giving_up.cancel()
        await self._in_time(self._intake.wait_idle, LAST_WORDS_S)
        abandoned = [message for subscription in subscriptions for message in subscription.in_flight]
        for message in abandoned:
            self._answers.put_back(message)
        self._context.counters.abandoned += len(abandoned)
        level = logging.WARNING if abandoned else logging.INFO
        logger.log(level, "CONSUMER(%s): cut off abandoned=%s", self._context.name, len(abandoned))
        for subscription in subscriptions:
            subscription.close_now()
        limit_s = self._context.config.write_timeout + LAST_WORDS_S
        await self._in_time(lambda: self._drained_connections(subscriptions), limit_s)

    async def _in_time(self, wait: Callable[[], Awaitable[None]], limit_s: float) -> bool:
        """Whether it ended before the limit, and before somebody lost patience."""
        waiting = asyncio.ensure_future(wait())
        hurrying = asyncio.ensure_future(self._hurry.wait())
        try:
            async with deadline(self._context.timers, limit_s):
                await asyncio.wait((waiting, hurrying), return_when=asyncio.FIRST_COMPLETED)
        except TimeoutError:
            pass
        finally:
            waiting.cancel()
            hurrying.cancel()
        return waiting.done() and not waiting.cancelled()
