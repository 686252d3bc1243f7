"""Messages without a broker, for tests of a handler alone.

message = make_message(b"order 7", attempts=3)
await handle(message)
assert message.requeue_delay_s == 270
"""

import time
from itertools import count
from typing import TYPE_CHECKING, cast

from nsqlake.client.config import ClientConfig
from nsqlake.client.consumer.delivery.requeue_delay import requeue_delay_ms
from nsqlake.client.message import Answer, Delay, Message

if TYPE_CHECKING:
    from nsqlake.client.consumer.delivery.subscription import Subscription

__all__ = ["RecordedMessage", "make_message"]

MSG_TIMEOUT_S = 60.0  # nsqd's defaults
MAX_MSG_TIMEOUT_S = 900.0

_numbers = count(1)


class RecordedMessage(Message, eq=False):
    """A `Message` that remembers what was done with it; `answer` says which answer it got, if any."""

    requeue_delay_s: float | None = None
    has_backoff: bool = False  # whether the consumer would have slowed down
    touch_count: int = 0
    is_kept_alive: bool = False

    @property
    def is_finished(self) -> bool:
        return self.answer is Answer.FINISHED

    @property
    def is_requeued(self) -> bool:
        return self.answer is Answer.REQUEUED


class _Recorder:
    """In place of the connection that delivered the message."""

    def __init__(self, topic: str, channel: str, config: ClientConfig) -> None:
        self.topic, self.channel = topic, channel
        self.address = "127.0.0.1:4150"
        self.msg_timeout_s, self.max_msg_timeout_s = MSG_TIMEOUT_S, MAX_MSG_TIMEOUT_S
        self.in_flight: set[Message] = set()
        self.is_lost = False
        self._config = config

    def finish(self, message: RecordedMessage) -> bool:
        return self._answer(message, Answer.FINISHED)

    def requeue(self, message: RecordedMessage, delay: Delay, *, backoff: bool) -> bool:
        config = self._config
        delay_ms = requeue_delay_ms(
            delay, message.attempts, default_s=config.default_requeue_delay, max_s=config.max_requeue_delay
        )
        if not self._answer(message, Answer.REQUEUED):
            return False
        message.requeue_delay_s = delay_ms / 1000
        message.has_backoff = backoff and config.backoff_on_requeue
        return True

    def put_back(self, message: RecordedMessage) -> bool:
        return self.requeue(message, 0, backoff=False)

    def touch(self, message: RecordedMessage) -> bool:
        if message not in self.in_flight:
            return False
        message.touch_count += 1
        return True

    def keep_alive(self, message: RecordedMessage) -> None:
        message.is_kept_alive = True

    def let_expire(self, message: RecordedMessage) -> None:
        message.is_kept_alive = False

    def _answer(self, message: RecordedMessage, answer: Answer) -> bool:
        try:
            self.in_flight.remove(message)
        except KeyError:
            return False
        message.answer = answer
        return True


def make_message(
    body: bytes,
    *,
    attempts: int = 1,
    topic: str = "topic",
    channel: str = "channel",
    timestamp_ns: int | None = None,
    config: ClientConfig | None = None,
) -> RecordedMessage:
    """A message as a consumer with this `config` would get it; published now, unless told otherwise."""
    recorder = _Recorder(topic, channel, config or ClientConfig())
    message = RecordedMessage(
        source=cast("Subscription", recorder),
        timestamp_ns=time.time_ns() if timestamp_ns is None else timestamp_ns,
        attempts=attempts,
        id=b"%016x" % next(_numbers),
        body=body,
        received_at_s=0.0,
        deadline_s=MSG_TIMEOUT_S,
    )
    recorder.in_flight.add(message)
    return message
