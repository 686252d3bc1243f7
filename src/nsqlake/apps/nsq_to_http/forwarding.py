"""What is done with each message: sampled, sent to the address whose turn it is, counted."""

import logging
import random
import time
from collections.abc import Callable
from typing import Protocol

from nsqlake.apps.nsq_to_http.options import NsqToHttpOptions
from nsqlake.apps.tool_support.destinations import MODES, Destinations, destinations
from nsqlake.apps.tool_support.progress import Progress
from nsqlake.apps.tool_support.status_report import StatusReport
from nsqlake.client.message import Message
from nsqlake.runtime.logs import ALWAYS

logger = logging.getLogger(__name__)


class Target(Protocol):
    async def send(self, address: str, body: bytes) -> None: ...


class Forwarding:
    """`handle` returns when the message was taken, or is not in the sample; else it raises."""

    def __init__(
        self,
        options: NsqToHttpOptions,
        target: Target,
        progress: Progress,
        *,
        chance: Callable[[], float] = random.random,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._addresses, self._sample = options.addresses, options.sample
        self._target, self._progress = target, progress
        self._chance, self._now_s = chance, now_s
        self._destinations = destinations(options.mode, options.addresses, chance)
        self._status = StatusReport(options.status_every, options.addresses)
        _log(self._status.warnings)
        if self._destinations is None:
            text = "Warning: --mode %r is none of %s: every message goes to all addresses"
            logger.warning(text, options.mode, ", ".join(MODES))

    async def handle(self, message: Message) -> None:
        if self._sample < 1.0 and self._chance() >= self._sample:
            return
        started_s = self._now_s()
        if self._destinations is None:
            for address in self._addresses:
                await self._send(address, message.body)
        else:
            await self._send_to_one(self._destinations, message.body)
        _log(self._status.add(self._now_s() - started_s))
        self._progress.add(1, len(message.body))

    async def _send_to_one(self, choice: Destinations, body: bytes) -> None:
        started_s = self._now_s()
        address = choice.choose(started_s)
        succeeded = False
        try:
            await self._send(address, body)
            succeeded = True
        finally:
            now_s = self._now_s()
            choice.report(address, succeeded=succeeded, elapsed_s=now_s - started_s, now_s=now_s)

    async def _send(self, address: str, body: bytes) -> None:
        started_s = self._now_s()
        await self._target.send(address, body)
        _log(self._status.add_for_address(self._now_s() - started_s, address))


def _log(lines: list[str]) -> None:
    for line in lines:
        logger.info("%s", line, extra=ALWAYS)
