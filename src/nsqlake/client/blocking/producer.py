"""Publishing without an event loop.

with BlockingProducer("127.0.0.1:4150") as producer:
    producer.publish("orders", b"hello")
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any, Final, Self

from nsqlake.client.blocking.direct_path import DirectPath, direct_path
from nsqlake.client.blocking.loop_thread import LoopThread, check_not_in_loop, shared
from nsqlake.client.blocking.outcomes import PublishFuture, Unanswered, Waiter
from nsqlake.client.errors import ClientClosedError, NsqClientError
from nsqlake.client.producer.encoding import Body, Delay, PublishEncoder, checked_timeout_s
from nsqlake.client.producer.producer import Producer
from nsqlake.client.producer.publication import Outcome
from nsqlake.client.producer.stats import ProducerStats

GRACE_S: Final = 5.0  # the loop settles in time; a caller waits this much longer for it to say so
# With these a publish is the loop's: it calls hooks, tries again, and keeps the time of tests.
LOOP_ARGUMENTS: Final = ("hooks", "retries", "timers")


class BlockingProducer:
    """A Producer whose calls return when nsqd has answered; any number of threads may share it.

    The arguments are those of Producer. It runs on an event loop in a daemon thread; a thread that publishes
    alone gets a second connection, which it uses itself. In a child process it connects anew; what was
    outstanding stays with the parent. At the end of the interpreter what is outstanding gets two seconds.
    """

    def __init__(self, nsqd_tcp_addresses: str | Sequence[str], **arguments: Any) -> None:
        self._make: Callable[[], Producer] = lambda: Producer(nsqd_tcp_addresses, **arguments)
        self._needs_loop = any(arguments.get(name) for name in LOOP_ARGUMENTS)
        self._encoder = PublishEncoder()
        self._is_closed = False
        self._open()

    def _open(self) -> None:
        self._producer = producer = self._make()
        config = producer.config
        self._default_timeout_s = config.publish_timeout
        self._unanswered = Unanswered(config.max_publish_in_flight, config.max_publish_bytes)
        self._thread = thread = shared()
        self._pid = thread.pid
        self._direct = direct = None if self._needs_loop else direct_path(producer, thread)
        thread.register(producer, lambda limit_s: producer.close(timeout=limit_s))
        weakref.finalize(self, _abandon, thread, producer, direct).atexit = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # Publishing ---------------------------------------------------------------------------------------

    def publish(self, topic: str, body: Body, *, timeout: Delay | None = None) -> None:
        """Returns when nsqd has taken it."""
        self._publish(topic, self._encoder.pub(topic, body), 1, timeout)

    def multi_publish(self, topic: str, bodies: Sequence[Body], *, timeout: Delay | None = None) -> None:
        """All of them or none."""
        command, count = self._encoder.mpub(topic, bodies)
        self._publish(topic, command, count, timeout)

    def deferred_publish(self, topic: str, delay: Delay, body: Body, *, timeout: Delay | None = None) -> None:
        """nsqd delivers it after `delay` at the earliest; seconds, a timedelta or text such as "5m"."""
        self._publish(topic, self._encoder.dpub(topic, delay, body), 1, timeout)

    def publish_nowait(
        self, topic: str, body: Body, *, timeout: Delay | None = None, block: bool = True
    ) -> Future[None]:
        """The answer comes later.

        While too many are unanswered it waits for room, at most `timeout`; with `block=False` it raises
        PublishNotSentError instead. Whoever does not look at the futures learns from `flush` how many failed.
        """
        command = self._encoder.pub(topic, body)
        timeout_s = checked_timeout_s(timeout, self._default_timeout_s)
        self._check_usable()
        self._unanswered.enter(topic, len(command), block=block, limit_s=timeout_s)
        future = PublishFuture(self._unanswered, len(command))
        self._thread.post(_submit, self._producer, future, topic, command, timeout_s, 1)
        return future

    def _publish(self, topic: str, command: bytes, count: int, timeout: Delay | None) -> None:
        check_not_in_loop("publish")
        self._check_usable()
        timeout_s = self._default_timeout_s
        if timeout is not None:
            timeout_s = checked_timeout_s(timeout, timeout_s)
        direct = self._direct
        if direct is not None and self._is_quiet():
            left_s = direct.publish(topic, command, count, timeout_s)
            if left_s is None:
                return
            timeout_s = left_s
        waiter = Waiter()
        self._thread.post(_submit, self._producer, waiter, topic, command, timeout_s, count)
        waiter.wait(topic, timeout_s + GRACE_S)
        if direct is not None:
            direct.proven()

    def _is_quiet(self) -> bool:
        """Nothing is unanswered that a publish past the loop could overtake."""
        return self._thread.is_idle and self._producer.is_idle

    def _check_usable(self) -> None:
        if self._is_closed:
            raise ClientClosedError("producer")
        if os.getpid() != self._pid:
            if self._direct is not None:
                self._direct.forget()
            self._open()

    # Looking, waiting and closing ---------------------------------------------------------------------

    def flush(self, *, timeout: Delay | None = None) -> int:
        """Wait for everything outstanding; how many publishes have failed since the last flush."""
        limit_s = checked_timeout_s(timeout, self._default_timeout_s + GRACE_S)
        check_not_in_loop("flush")
        self._check_usable()
        if self._direct is not None:
            limit_s = self._direct.wait(limit_s)
        return self._thread.run(self._producer.flush, name="flush", limit_s=limit_s)

    def ping(self, *, strict: bool = False) -> None:
        """One nsqd is connected and was heard from lately, or ConnectError; `strict` shakes hands anew."""
        self._check_usable()
        self._thread.run(lambda: self._producer.ping(strict=strict), name="ping")

    def stats(self) -> ProducerStats:
        self._check_usable()
        return self._thread.run(self._stats, name="stats", limit_s=GRACE_S)

    async def _stats(self) -> ProducerStats:
        return self._producer.stats()

    def close(self, *, timeout: Delay | None = None) -> None:
        """Take no more, wait for what is outstanding, at most `timeout` or `stop_timeout`, and disconnect."""
        limit_s = checked_timeout_s(timeout, self._producer.config.stop_timeout)
        check_not_in_loop("close")
        if self._is_closed:
            return
        self._is_closed = True
        if os.getpid() != self._pid:
            if self._direct is not None:
                self._direct.forget()
            return
        self._thread.forget(self._producer)
        if self._direct is not None:
            limit_s = self._direct.close(limit_s)
        self._thread.run(lambda: self._producer.close(timeout=limit_s), name="close")


def _submit(
    producer: Producer, outcome: Outcome, topic: str, command: bytes, timeout_s: float, count: int
) -> None:
    try:
        producer.submit(outcome, topic, command, message_count=count, timeout=timeout_s)
    except NsqClientError as error:
        outcome.set_exception(error)


def _abandon(thread: LoopThread, producer: Producer, direct: DirectPath | None) -> None:
    """Nobody holds the blocking producer any more: close what it ran on, without waiting."""
    if thread.pid == os.getpid():
        if direct is not None:
            direct.close(0.0)
        thread.forget(producer)
        thread.post(lambda: thread.loop.create_task(producer.close()))
