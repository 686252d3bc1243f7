"""Publishing in the calling thread, for a thread that publishes alone and one by one.

Handing a publish to the loop's thread and its outcome back takes longer than nsqd needs for it. This is a
shortcut: whatever is not plain goes through the loop, where all waits, retries and reconnects are.
"""

from __future__ import annotations

import contextlib
import logging
import math
from threading import Lock, get_ident
from time import monotonic
from typing import Final

from nsqlake.client.addresses import parse_nsqd_address
from nsqlake.client.blocking.direct_connection import DirectConnection, Frame
from nsqlake.client.blocking.errors import CallTimeoutError
from nsqlake.client.blocking.loop_thread import LoopThread
from nsqlake.client.config import ClientConfig
from nsqlake.client.dialing import dial
from nsqlake.client.errors import (
    ConnectError,
    ConnectionLostError,
    PublishRejectedError,
    PublishUnknownError,
    ServerError,
)
from nsqlake.client.producer.producer import Producer
from nsqlake.client.producer.stats import Counters
from nsqlake.runtime.timers import LoopTimers
from nsqlake.wire.errors import StreamError, printable
from nsqlake.wire.frames import OK, FrameType

logger = logging.getLogger(__name__)

PROVEN_FOR_S: Final = 1.0  # so soon after a publish through the loop nsqd is there, and more will follow
CROWDED_FOR_S: Final = 0.1  # several threads are faster together on the loop than by turns here and there
IDLE_LIMIT_S: Final = 30.0  # without heartbeats nobody knows whether an older connection still leads anywhere


class DirectPath:
    """One connection to one nsqd, used by one thread at a time; between two uses nothing is unanswered."""

    def __init__(self, address: str, config: ClientConfig, thread: LoopThread, counters: Counters) -> None:
        self._target = parse_nsqd_address(address)
        self._address = str(self._target)
        self._config, self._thread, self._counters = config, thread, counters
        self._lock = Lock()
        self._owner = 0  # the thread that publishes here
        self._connection: DirectConnection | None = None
        self._is_closed = False
        self._used_s = self._proven_s = self._crowded_s = self._not_before_s = -math.inf

    def proven(self) -> None:
        """A publish through the loop has succeeded."""
        self._proven_s = monotonic()

    # Publishing ---------------------------------------------------------------------------------------

    def publish(self, topic: str, command: bytes, count: int, timeout_s: float) -> float | None:
        """None when nsqd has taken it; else nsqd cannot have read it, and this much time is left."""
        if not self._lock.acquire(blocking=False):
            self._crowded_s = monotonic()
            return timeout_s
        try:
            self._owner = get_ident()
            return self._publish(topic, command, count, timeout_s)
        except BaseException:
            # Also an interrupt: the answer that is still to come would be taken for the next publish's.
            self._discard()
            raise
        finally:
            self._owner = 0
            if self._is_closed:
                self._discard()
            self._lock.release()

    def _publish(self, topic: str, command: bytes, count: int, timeout_s: float) -> float | None:
        begun_s = monotonic()
        ends_s = begun_s + timeout_s
        if begun_s < self._crowded_s + CROWDED_FOR_S:
            return timeout_s
        if self._connection is None:
            if begun_s > self._proven_s + PROVEN_FOR_S or begun_s < self._not_before_s:
                return timeout_s
            self._open(timeout_s)
        elif begun_s > self._used_s + IDLE_LIMIT_S or not self._connection.is_silent:
            self._discard()
            return timeout_s
        connection = self._connection
        if connection is None or not self._send(connection, command, ends_s):
            return max(ends_s - monotonic(), 0.0)
        answer = self._answer(connection, topic, ends_s, timeout_s)
        if answer is not None:
            self._judge(topic, *answer)
            self._discard()
        self._used_s = now_s = monotonic()
        self._counters.count_answer(count, len(command), now_s - begun_s)
        return None

    def _send(self, connection: DirectConnection, command: bytes, ends_s: float) -> bool:
        try:
            connection.send(command, ends_s, self._config.write_timeout)
        except OSError:
            self._discard()
            return False
        return True

    def _answer(
        self, connection: DirectConnection, topic: str, ends_s: float, timeout_s: float
    ) -> Frame | None:
        try:
            return connection.read_answer(ends_s)
        except TimeoutError:
            raise self._unknown(topic, f"no answer within {timeout_s:g} s") from None
        except OSError as error:
            lost = ConnectionLostError(self._address, (error.strerror or str(error)).lower())
            raise self._unknown(topic, str(lost)) from error
        except StreamError as error:
            raise self._violated(topic, f"broke the protocol: {error}") from None

    def _judge(self, topic: str, kind: FrameType, payload: bytes) -> None:
        """Raises what an answer other than OK means."""
        if kind is FrameType.ERROR:
            error = ServerError.decode(self._address, payload)
            self._counters.rejected += 1
            raise PublishRejectedError(topic, self._address, error.code, error.text)
        if kind is FrameType.MESSAGE:
            raise self._violated(topic, "nsqd delivers messages to a producer")
        if payload != OK:
            raise self._violated(topic, f"unexpected response {printable(payload)!r}")

    def _violated(self, topic: str, reason: str) -> PublishUnknownError:
        logger.error("NSQD(%s): %s, closing", self._address, reason)
        return self._unknown(topic, str(ConnectionLostError(self._address, reason)))

    def _unknown(self, topic: str, reason: str) -> PublishUnknownError:
        self._counters.unknown += 1
        return PublishUnknownError(topic, self._address, reason)

    # Opening and closing ------------------------------------------------------------------------------

    def _open(self, timeout_s: float) -> None:
        self._proven_s = -math.inf
        limit_s = min(self._config.dial_timeout, timeout_s / 2)  # the loop is to have time for it too
        ends_s = monotonic() + limit_s
        try:
            opened = self._thread.run(
                lambda: dial(self._target, self._config, LoopTimers()), name="connect", limit_s=limit_s
            )
            self._connection = DirectConnection(opened)
            self._connection.shake_hands(self._address, self._config, ends_s)
        except (ConnectError, CallTimeoutError, OSError, StreamError) as error:
            logger.info("NSQD(%s): no connection for direct publishes reason=%s", self._address, error)
            self._not_before_s = ends_s + self._config.reconnect_max_delay
            self._discard()

    def _discard(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def wait(self, limit_s: float) -> float:
        """Until nobody publishes here; what is left of the time."""
        if self._owner in (0, get_ident()):  # ourselves: in a signal handler
            return limit_s
        begun_s = monotonic()
        if self._lock.acquire(timeout=limit_s):
            self._lock.release()
        return max(limit_s - (monotonic() - begun_s), 0.0)

    def close(self, limit_s: float) -> float:
        """Let a publish end in this time, or tell it that it is over; what is left of the time."""
        self._is_closed = True
        left_s = self.wait(limit_s)
        connection = self._connection
        if self._lock.acquire(blocking=False):
            self._discard()
            self._lock.release()
        elif connection is not None:  # to be closed by the thread that uses it
            with contextlib.suppress(OSError):
                connection.interrupt()
        return left_s

    def forget(self) -> None:
        """In a child process: the connection is the parent's."""
        self._is_closed = True
        self._discard()


def direct_path(producer: Producer, thread: LoopThread) -> DirectPath | None:
    """None for what only the loop can do: several nsqd, TLS, compression."""
    config = producer.config
    if len(producer.addresses) > 1 or config.tls_v1 or config.snappy or config.deflate:
        return None
    return DirectPath(producer.addresses[0], config, thread, producer.direct)
