"""A message as a consumer has it, and what a handler may raise instead of answering it."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import timedelta
from enum import Enum
from types import TracebackType
from typing import TYPE_CHECKING, Self

import msgspec

if TYPE_CHECKING:
    from nsqlake.client.consumer.delivery.subscription import Subscription

Delay = float | timedelta | None  # seconds; None: by the attempts so far


class Requeue(Exception):  # noqa: N818 - not an error, a way to answer
    """Raised by a handler: requeue the message. Without `backoff` the consumer goes on at its rate."""

    def __init__(self, delay: Delay = None, *, backoff: bool = True) -> None:
        super().__init__(delay, backoff)
        self.delay, self.backoff = delay, backoff


class Discard(Exception):  # noqa: N818
    """Raised by a handler: finish the message, there is nothing more to do about it."""


class Answer(Enum):
    FINISHED = "finished"
    REQUEUED = "requeued"


class Message(msgspec.Struct, eq=False):
    """One delivery. The first `finish` or `requeue` counts and returns True; later ones return False.

    All methods may be called from other threads too. Times are seconds of the client's steady clock.
    """

    source: Subscription  # the connection that delivered it: only there it can be answered
    timestamp_ns: int
    attempts: int
    id: bytes
    body: bytes
    received_at_s: float
    deadline_s: float  # nsqd then takes the message for lost, unless it is touched before
    answer: Answer | None = None
    is_expired: bool = False  # nsqd has taken it for lost
    has_auto_response: bool = True
    holder: object = None  # the task that took it with `get`

    @property
    def topic(self) -> str:
        return self.source.topic

    @property
    def channel(self) -> str:
        return self.source.channel

    @property
    def nsqd_address(self) -> str:
        return self.source.address

    @property
    def hard_deadline_s(self) -> float:
        """Where touching ends to help."""
        return self.received_at_s + self.source.max_msg_timeout_s

    @property
    def age_s(self) -> float:
        """Since it was published, by the wall clocks of two machines."""
        return max(0.0, (time.time_ns() - self.timestamp_ns) / 1e9)

    @property
    def is_answered(self) -> bool:
        return self.answer is not None

    @property
    def is_in_flight(self) -> bool:
        return self in self.source.in_flight

    @property
    def is_connection_lost(self) -> bool:
        """Then no answer arrives any more, and nsqd delivers it again."""
        return self.source.is_lost

    @property
    def is_cancelled(self) -> bool:
        """Whether work on it is in vain, because it will be delivered again anyway."""
        return self.is_expired or self.source.is_lost

    def finish(self) -> bool:
        return self.source.finish(self)

    def requeue(self, delay: Delay = None, *, backoff: bool = True) -> bool:
        return self.source.requeue(self, delay, backoff=backoff)

    def touch(self) -> bool:
        """Have as long again as at the delivery; False when it is too late or answered."""
        return self.source.touch(self)

    def disable_auto_response(self) -> None:
        """What the handler returns or raises is no answer; `finish` or `requeue` will be called later."""
        self.has_auto_response = False

    def keepalive(self) -> AbstractAsyncContextManager[None]:
        """Touch it in time, again and again, in the block."""
        return self._keepalive()

    @asynccontextmanager
    async def _keepalive(self) -> AsyncIterator[None]:
        self.source.keep_alive(self)
        try:
            yield
        finally:
            self.source.let_expire(self)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        """Finish, or requeue after an exception; Requeue and Discard go no further."""
        if error is None or isinstance(error, Discard):
            self.finish()
        elif isinstance(error, Requeue):
            self.requeue(error.delay, backoff=error.backoff)
        elif isinstance(error, Exception):
            self.requeue()
        else:  # cancelled: nothing is wrong with the message
            self.source.put_back(self)
        return isinstance(error, Requeue | Discard)

    def __repr__(self) -> str:
        return f"<Message {self.id!r} of {self.topic}/{self.channel}, attempts={self.attempts}>"
