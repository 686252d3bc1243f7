"""What is done with each message: looked at, published to the nsqd whose turn it is, counted."""

import logging
import random
import time
from collections.abc import Callable, Mapping
from typing import Protocol

from nsqlake.apps.nsq_to_nsq.go_json import NotJsonObjectError
from nsqlake.apps.nsq_to_nsq.json_step import JsonStep
from nsqlake.apps.nsq_to_nsq.options import NsqToNsqOptions
from nsqlake.apps.tool_support.destinations import MODES, RoundRobin, destinations
from nsqlake.apps.tool_support.progress import Progress
from nsqlake.apps.tool_support.status_report import StatusReport
from nsqlake.client.errors import NsqClientError, PublishError
from nsqlake.client.message import Message
from nsqlake.runtime.logs import ALWAYS

logger = logging.getLogger(__name__)


class Destination(Protocol):
    async def publish(self, topic: str, body: bytes) -> None: ...


class Forwarding:
    """`handle` returns when the message was published or dropped; else it raises."""

    def __init__(
        self,
        options: NsqToNsqOptions,
        nsqds: Mapping[str, Destination],
        progress: Progress,
        *,
        chance: Callable[[], float] = random.random,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._json = JsonStep(
            options.require_json_field, options.require_json_value, options.whitelist_json_fields
        )
        self._topic = options.destination_topic
        self._nsqds, self._progress, self._now_s = nsqds, progress, now_s
        choice = destinations(options.mode, options.destinations, chance)
        if choice is None:
            text = "Warning: --mode %r is none of %s: taken for round-robin"
            logger.warning(text, options.mode, ", ".join(MODES))
        self._choice = choice or RoundRobin(options.destinations)
        self._status = StatusReport(options.status_every, options.destinations)
        _log(self._status.warnings)

    async def handle(self, message: Message) -> None:
        body = self._looked_at(message)
        if body is not None:
            await self._publish(self._topic or message.topic, body)

    def _looked_at(self, message: Message) -> bytes | None:
        """What to publish, None for nothing; MissingFieldError."""
        try:
            return self._json.apply(message.body)
        except NotJsonObjectError as error:
            text = "ERROR: Unable to decode json: message %s of %d bytes dropped: %s"
            logger.error(text, message.id.decode(), len(message.body), error)
            return None

    async def _publish(self, topic: str, body: bytes) -> None:
        started_s = self._now_s()
        address = self._choice.choose(started_s)
        try:
            await self._nsqds[address].publish(topic, body)
        except NsqClientError as error:
            self._note(address, started_s, succeeded=False, is_answered=isinstance(error, PublishError))
            raise
        self._note(address, started_s, succeeded=True, is_answered=True)
        self._progress.add(1, len(body))

    def _note(self, address: str, started_s: float, *, succeeded: bool, is_answered: bool) -> None:
        now_s = self._now_s()
        elapsed_s = now_s - started_s
        self._choice.report(address, succeeded=succeeded, elapsed_s=elapsed_s, now_s=now_s)
        if is_answered:
            _log(self._status.add(elapsed_s, address))


def _log(lines: list[str]) -> None:
    for line in lines:
        logger.info("%s", line, extra=ALWAYS)
