"""The parts of a running consumer, put together on its event loop."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from nsqlake.client.consumer.context import Context
from nsqlake.client.consumer.delivery.answers import Answers
from nsqlake.client.consumer.delivery.deadlines import Deadlines
from nsqlake.client.consumer.delivery.inbox import Inbox
from nsqlake.client.consumer.delivery.subscription import Subscription
from nsqlake.client.consumer.handling.batching import BatchIntake, BatchRunner
from nsqlake.client.consumer.handling.giving_up import GivingUp
from nsqlake.client.consumer.handling.handlers import Handler, Middleware, is_async, with_middleware
from nsqlake.client.consumer.handling.intake import Intake
from nsqlake.client.consumer.handling.jobs import BatchJobs, MessageJobs
from nsqlake.client.consumer.handling.pulling import PullIntake
from nsqlake.client.consumer.handling.task_intake import TaskIntake
from nsqlake.client.consumer.handling.thread_intake import ThreadIntake
from nsqlake.client.consumer.nodes import Nodes
from nsqlake.client.consumer.rate.rdy_control import RdyControl
from nsqlake.client.consumer.sources import Sources
from nsqlake.client.consumer.stopping import Draining, Gate
from nsqlake.client.errors import NsqClientError
from nsqlake.client.message import Message

THREADS: Final = 16  # of plain handlers, unless `concurrency` says otherwise


@dataclass(frozen=True)
class Handling:
    """What happens to messages: a handler, for one or for a batch; None: somebody asks for them."""

    handler: Handler | None
    batch_size: int | None = None
    batch_timeout_s: float = 1.0
    middleware: Sequence[Middleware] = ()

    @property
    def runs_in_threads(self) -> bool:
        return self.handler is not None and not self.middleware and not is_async(self.handler)


class Assembly:
    """Made by `Consumer.start`; each part knows only those it is given here."""

    def __init__(
        self,
        context: Context,
        handling: Handling,
        chance: random.Random,
    ) -> None:
        self._context, self._handling = context, handling
        self.inbox = Inbox()
        self.control = RdyControl(context, chance)
        self.answers = Answers(context, self.control, self.inbox)
        self.deadlines = Deadlines(self.answers, context.timers)
        self.giving_up = GivingUp(context, self.answers)
        self.sources = Sources(
            context, lambda on_found_lost: Nodes(context, self._subscription, on_found_lost, chance)
        )
        self.nodes = self.sources.nodes
        self.pulling: PullIntake | None = None
        self.intake = self._intake()
        self.gate = Gate(self.intake, self.answers)
        self.draining = Draining(context, self.answers, self.intake, self.gate, self.giving_up)

    def is_inside(self, task: asyncio.Task[Any] | None) -> bool:
        """Whether `task` is one that a stop waits for."""
        inside = (self.intake, self.giving_up, self._context.hook_calls)
        return task is not None and any(part.is_inside(task) for part in inside)

    def _subscription(
        self, address: str, on_lost: Callable[[Subscription, NsqClientError | None], None]
    ) -> Subscription:
        return Subscription(
            address,
            self._context,
            control=self.control,
            answers=self.answers,
            deadlines=self.deadlines,
            intake=self.gate,
            on_lost=on_lost,
        )

    def _intake(self) -> Intake:
        tools = (self._context, self.answers, self.deadlines, self.giving_up)
        if self._handling.handler is None:
            jobs = MessageJobs(*tools)
            self.pulling = PullIntake(jobs, self._context.timers, self._context.name, self._in_flight)
            return self.pulling
        if self._handling.batch_size is None:
            intake: Intake = self._runner(MessageJobs(*tools))
            return intake
        runner: BatchRunner = self._runner(BatchJobs(*tools))
        return BatchIntake(
            runner,
            self._context.timers,
            size=self._handling.batch_size,
            timeout_s=self._handling.batch_timeout_s,
            is_starved=lambda: self.control.flow.is_starved,
        )

    def _runner(self, jobs: Any) -> Any:
        handler, timers = self._handling.handler, self._context.timers
        assert handler is not None
        if self._handling.runs_in_threads:
            return ThreadIntake(handler, jobs, timers, self._concurrency, self.inbox)
        return TaskIntake(
            with_middleware(handler, self._handling.middleware), jobs, timers, self._concurrency
        )

    def _concurrency(self) -> int:
        if self._context.config.concurrency:
            return self._context.config.concurrency
        wanted = max(1, self.control.max_in_flight // (self._handling.batch_size or 1))
        return min(wanted, THREADS) if self._handling.runs_in_threads else wanted

    def _in_flight(self) -> Iterator[Message]:
        for subscription in self.nodes.subscriptions:
            yield from list(subscription.in_flight)
