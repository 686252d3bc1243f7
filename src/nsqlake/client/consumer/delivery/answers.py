"""FIN, REQ and TOUCH: who may still answer a message, and what follows from an answer.

A message is answered by whoever takes it out of its connection's `in_flight`. Taking something out of a set
is one step for all threads, so that also two threads cannot answer twice.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from nsqlake.client.consumer.context import Context
from nsqlake.client.consumer.delivery.inbox import Inbox
from nsqlake.client.consumer.delivery.requeue_delay import requeue_delay_ms
from nsqlake.client.consumer.delivery.subscription import Subscription
from nsqlake.client.consumer.rate.backoff import Signal
from nsqlake.client.consumer.rate.rdy_control import RdyControl
from nsqlake.client.message import Answer, Delay, Message

logger = logging.getLogger(__name__)


class Answers:
    """All answers of one consumer."""

    def __init__(self, context: Context, control: RdyControl, inbox: Inbox) -> None:
        self._context, self._control, self._inbox = context, control, inbox
        self._counters, self._hooks = context.counters, context.hooks

    def finish(self, message: Message, signal: Signal | None = Signal.RESUME) -> bool:
        if self._inbox.is_foreign:
            return self._answer_from_thread(message, Answer.FINISHED, self._send_fin, message, signal)
        return self.finish_on_loop(message, signal)

    def finish_on_loop(self, message: Message, signal: Signal | None = Signal.RESUME) -> bool:
        """The same for a caller that is surely on the loop."""
        try:
            message.source.in_flight.remove(message)
        except KeyError:
            if not self._claim_late(message, Answer.FINISHED):
                return False
        message.answer = Answer.FINISHED
        self._send_fin(message, signal)
        return True

    def requeue(self, message: Message, delay: Delay, *, backoff: bool) -> bool:
        """As the user asks; InvalidArgumentError for an impossible delay."""
        signal = Signal.BACK_OFF if backoff and self._context.config.backoff_on_requeue else Signal.CONTINUE
        return self._requeue(message, delay, signal)

    def requeue_failed(self, message: Message) -> bool:
        """Its handler failed."""
        return self._requeue(message, None, Signal.BACK_OFF)

    def put_back(self, message: Message) -> bool:
        """Nothing was wrong with it: somebody else may have it at once."""
        return self._requeue(message, 0, None)

    def touch(self, message: Message) -> bool:
        if message not in message.source.in_flight:
            return False
        if self._inbox.is_foreign:
            self._inbox.post(self._send_touch, message)
        else:
            self._send_touch(message)
        return True

    def expire(self, message: Message, *, is_held: bool) -> None:
        """nsqd has taken it for lost and freed its place; who holds it may still try to answer."""
        source = message.source
        try:
            source.in_flight.remove(message)
        except KeyError:
            return
        if is_held:
            source.overdue.add(message)
        self._note_expired(message)
        self._control.answered(source, None)
        source.close_if_drained()

    def came_late(self, source: Subscription, message: Message | None) -> None:
        """nsqd refused an answer; `message` is None when it is not known any more."""
        self._counters.late_answers += 1
        if message is not None and message in source.in_flight:
            self.expire(message, is_held=True)
        elif message is not None and not message.is_expired:
            self._note_expired(message)
        if self._context.config.backoff_on_late_answer:
            self._control.answered(source, Signal.BACK_OFF)

    def when_all_are_sent(self, source: Subscription, then: Callable[[], None]) -> None:
        """Call it soon if nothing of `source` is in flight, after what threads have answered."""
        with self._inbox.lock:
            if source.in_flight:
                return
        self._inbox.post(then)

    # Sending ------------------------------------------------------------------------------------------

    def _claim(self, message: Message, answer: Answer) -> bool:
        source = message.source
        try:
            source.in_flight.remove(message)
        except KeyError:
            return self._claim_late(message, answer)
        message.answer = answer
        return True

    def _claim_late(self, message: Message, answer: Answer) -> bool:
        source = message.source
        try:
            source.overdue.remove(message)
        except KeyError:
            if source.is_lost and message.answer is None:
                message.answer = answer
                self._counters.dropped_answers += 1
            return False
        # Clocks differ: nsqd decides whether it is too late.
        message.answer = answer
        return True

    def _note_expired(self, message: Message) -> None:
        message.is_expired = True
        self._counters.expired += 1
        logger.warning("CONSUMER(%s): message expired id=%s", self._context.name, message.id)
        self._context.tell(self._hooks.on_expired, message)

    def _send_fin(self, message: Message, signal: Signal | None) -> None:
        source = message.source
        if self._control.is_attentive:
            self._control.answered(source, signal)
        source.send_fin(message)
        self._counters.finished += 1
        if self._hooks.on_finish is not None:
            self._context.tell(self._hooks.on_finish, message)

    def _requeue(self, message: Message, delay: Delay, signal: Signal | None) -> bool:
        config = self._context.config
        delay_ms = requeue_delay_ms(
            delay, message.attempts, default_s=config.default_requeue_delay, max_s=config.max_requeue_delay
        )
        if self._inbox.is_foreign:
            return self._answer_from_thread(
                message, Answer.REQUEUED, self._send_req, message, delay_ms, signal
            )
        if not self._claim(message, Answer.REQUEUED):
            return False
        self._send_req(message, delay_ms, signal)
        return True

    def _answer_from_thread(
        self, message: Message, answer: Answer, send: Callable[..., None], *arguments: object
    ) -> bool:
        # In one step for the loop, which closes a connection that has nothing in flight.
        with self._inbox.lock:
            if not self._claim(message, answer):
                return False
            self._inbox.post(send, *arguments)
        return True

    def _send_req(self, message: Message, delay_ms: int, signal: Signal | None) -> None:
        source = message.source
        self._control.answered(source, signal)
        source.send_answer(message, b"REQ %b %d\n" % (message.id, delay_ms))
        backoff = signal is Signal.BACK_OFF
        self._counters.requeued += 1
        self._counters.requeued_without_backoff += not backoff
        self._context.tell(self._hooks.on_requeue, message, delay_ms / 1000, backoff)

    def _send_touch(self, message: Message) -> None:
        source = message.source
        if message in source.in_flight:
            message.deadline_s = min(
                self._context.timers.now_s() + source.msg_timeout_s, message.hard_deadline_s
            )
            source.send(b"TOUCH %b\n" % message.id)
            self._counters.touched += 1
            self._context.tell(self._hooks.on_touch, message)
