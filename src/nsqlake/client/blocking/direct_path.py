"""Publishing in the calling thread, for a thread that publishes alone and one by one.

Handing a publish to the loop's thread and its outcome back costs twice what nsqd needs for it. This way is a
shortcut only: whatever is not plain goes through the loop, and with it every wait, retry and reconnect.
"""

from __future__ import annotations

import contextlib
import logging
import math
import os
from threading import Lock, get_ident
from time import monotonic
from typing import Final

from nsqlake.client.addresses import parse_nsqd_address
from nsqlake.client.blocking.direct_connection import DirectConnection
from nsqlake.client.blocking.errors import CallTimeoutError
from nsqlake.client.blocking.loop_thread import LoopThread
from nsqlake.client.config import ClientConfig
from nsqlake.client.dialing import dial
from nsqlake.client.errors import (
    ConnectError,
    ConnectionLostError,
    PublishError,
    PublishRejectedError,
    PublishUnknownError,
    ServerError,
)
from nsqlake.client.producer.stats import Counters
from nsqlake.runtime.timers import LoopTimers
from nsqlake.wire.errors import StreamError, printable
from nsqlake.wire.frames import OK, FrameType

logger = logging.getLogger(__name__)

PROVEN_FOR_S: Final = 1.0  # so soon after a publish through the loop nsqd is there, and more are likely
IDLE_LIMIT_S: Final = 30.0  # without heartbeats nobody knows whether an older connection still leads to nsqd


class DirectPath:
    """One connection to one nsqd, used by one thread at a time; nothing on it is unanswered in between."""

    def __init__(self, address: str, config: ClientConfig, thread: LoopThread, counters: Counters) -> None:
        self._target = parse_nsqd_address(address)
        self._address = str(self._target)
        self._config, self._thread, self._counters = config, thread, counters
        self._lock = Lock()
        self._owner = 0  # the thread that publishes here
        self._connection: DirectConnection | None = None
        self._is_closed = False
        self._used_s = self._proven_s = self._not_before_s = -math.inf

    def proven(self) -> None:
        """A publish through the loop has succeeded."""
        self._proven_s = monotonic()

    def publish(self, topic: str, command: bytes, count: int, timeout_s: float) -> float | None:
        """None when nsqd has taken it; else nsqd cannot have read it, and this much time is left."""
        if not self._lock.acquire(blocking=False):
            return timeout_s
        try:
            self._owner = get_ident()
            return self._publish(topic, command, count, timeout_s)
        finally:
            if self._is_closed:
                self._discard()
            self._owner = 0
            self._lock.release()

    def _publish(self, topic: str, command: bytes, count: int, timeout_s: float) -> float | None:
        begun_s = monotonic()
        ends_s = begun_s + timeout_s
        connection = self._usable(begun_s, timeout_s)
        if connection is None:
            return ends_s - monotonic() if self._not_before_s > begun_s else timeout_s
        is_kept = False
        try:
            connection.send(command, ends_s, self._config.write_timeout)
            self._settle(connection, topic, ends_s, timeout_s)
        except _NotSentError:
            return
        ...
