"""What a handler is called with: whether it may still be called, and what its result means.

A job is a message, or a batch of them. Whoever runs jobs needs not know which.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Final, Generic, TypeVar

from nsqlake.client.consumer.context import Context
from nsqlake.client.consumer.delivery.answers import Answers
from nsqlake.client.consumer.delivery.deadlines import Deadlines
from nsqlake.client.consumer.handling.giving_up import GivingUp
from nsqlake.client.errors import InvalidArgumentError
from nsqlake.client.message import Discard, Message, Requeue

logger = logging.getLogger(__name__)

NO_LIMIT: Final = 2**16  # above every number of attempts that fits the wire

Job = TypeVar("Job")


class Jobs(Generic[Job]):
    """Common to messages and batches."""

    def __init__(self, context: Context, answers: Answers, deadlines: Deadlines, giving_up: GivingUp) -> None:
        self._context, self._answers, self._deadlines = context, answers, deadlines
        self._giving_up, self._counters = giving_up, context.counters
        self._max_attempts = context.config.max_attempts or NO_LIMIT
        self._auto_touch = context.config.auto_touch

    def admit(self, job: Job, now_s: float) -> Job | None:
        """The job, or what is left of it, if its handler should run; its expired messages are let go."""
        raise NotImplementedError

    def messages(self, job: Job) -> Sequence[Message]:
        raise NotImplementedError

    def is_fresh(self, job: Job, now_s: float) -> bool:
        """Whether all of it may still be handled; may be called from any thread."""
        return all(
            message.deadline_s > now_s and message in message.source.in_flight
            for message in self.messages(job)
        )

    def settle(self, job: Job, result: object) -> None:
        """The handler returned `result`: answer what it has not answered itself."""
        self._counters.handled += 1
        if result is None or result is True:
            self._finish(job)
        elif result is False:
            self._requeue(job, Requeue())
        else:
            self._fail(job, TypeError(f"a handler must return None, True or False, not {type(result)}"))
        self._let_expire(job)

    def fail(self, job: Job, error: BaseException) -> None:
        """The handler raised `error`."""
        self._counters.handled += 1
        if isinstance(error, Discard):
            self._finish(job)
        elif isinstance(error, Requeue):
            self._requeue(job, error)
        elif isinstance(error, Exception):
            self._fail(job, error)
        else:  # cancelled: nothing is wrong with the message
            for message in self._owed(job):
                self._answers.put_back(message)
        self._let_expire(job)

    def _owed(self, job: Job) -> list[Message]:
        return [
            message for message in self.messages(job) if message.answer is None and message.has_auto_response
        ]

    def _finish(self, job: Job) -> None:
        for message in self._owed(job):
            self._answers.finish(message)

    def _requeue(self, job: Job, wish: Requeue) -> None:
        try:
            for message in self._owed(job):
                self._answers.requeue(message, wish.delay, backoff=wish.backoff)
        except InvalidArgumentError as error:
            self._fail(job, error)

    def _fail(self, job: Job, error: Exception) -> None:
        self._counters.handler_exceptions += 1
        messages = self.messages(job)
        logger.error(
            "CONSUMER(%s): handler failed id=%s attempts=%s messages=%s",
            self._context.name,
            messages[0].id,
            messages[0].attempts,
            len(messages),
            exc_info=error,
            extra=self._context.log_fields(messages[0].nsqd_address),
        )
        for message in self._owed(job):
            self._answers.requeue_failed(message)
        self._context.tell(self._context.hooks.on_exception, job, error)

    def _admit_message(self, message: Message, now_s: float) -> bool:
        if message not in message.source.in_flight:  # lost with its connection, or put back
            message.source.overdue.discard(message)
            return False
        if message.deadline_s <= now_s:
            self._answers.expire(message, is_held=False)
            return False
        if message.attempts > self._max_attempts:
            self._giving_up.give_up(message)
            return False
        if self._auto_touch:
            self._deadlines.keep_alive(message)
        return True

    def _let_expire(self, job: Job) -> None:
        if self._auto_touch:
            for message in self.messages(job):
                if message.has_auto_response:
                    self._deadlines.let_expire(message)


class MessageJobs(Jobs[Message]):
    """The common cases are spelled out: they happen for every message."""

    def admit(self, job: Message, now_s: float) -> Message | None:
        if (
            job.deadline_s > now_s
            and job.attempts <= self._max_attempts
            and job in job.source.in_flight
            and not self._auto_touch
        ):
            return job
        return job if self._admit_message(job, now_s) else None

    def messages(self, job: Message) -> Sequence[Message]:
        return (job,)

    def settle(self, job: Message, result: object) -> None:
        if result is None and job.answer is None and job.has_auto_response and not self._auto_touch:
            self._counters.handled += 1
            self._answers.finish_on_loop(job)
        else:
            super().settle(job, result)


class BatchJobs(Jobs[list[Message]]):
    def admit(self, job: list[Message], now_s: float) -> list[Message] | None:
        return [message for message in job if self._admit_message(message, now_s)] or None

    def messages(self, job: list[Message]) -> Sequence[Message]:
        return job
