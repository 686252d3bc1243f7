"""Every record to every nsqd, many at a time; the first failure ends it."""

import asyncio
from collections.abc import Sequence

from nsqlake.apps.tool_support.errors import ToolError
from nsqlake.client.config import ClientConfig
from nsqlake.client.errors import NsqClientError, PublishError, PublishNotSentError
from nsqlake.client.producer.hooks import ProducerHooks
from nsqlake.client.producer.producer import Producer

FAILED_CLOSE_S = 5.0


class Publishing:
    """Connects with the first record; `failed` is set when a publish fails."""

    def __init__(self, addresses: Sequence[str], topic: str, config: ClientConfig) -> None:
        hooks = ProducerHooks(on_error=self._note_error)
        distinct = dict.fromkeys(addresses)
        self._producers = [Producer(address, config=config, hooks=hooks) for address in distinct]
        self._topic = topic
        self._is_connected = False
        self._given_count = 0
        self._error: NsqClientError | None = None
        self.failed = asyncio.Event()

    def _note_error(self, error: NsqClientError) -> None:
        if isinstance(error, PublishError):
            self.fail(error)

    def fail(self, error: NsqClientError) -> None:
        """The first one counts."""
        self._error = self._error or error
        self.failed.set()

    async def publish(self, record: bytes) -> None:
        """Returns when it is on its way."""
        if not self._is_connected:
            await self._connect()
        self._given_count += 1
        for producer in self._producers:
            try:
                producer.publish_nowait(self._topic, record)
            except PublishNotSentError:  # as much as may be unanswered is unanswered
                await producer.flush()
                producer.publish_nowait(self._topic, record)

    async def _connect(self) -> None:
        for producer in self._producers:
            await producer.start(wait=True)
        self._is_connected = True

    async def close(self) -> None:
        """Until all is acknowledged; ToolError if anything failed: what, and how much was done before."""
        for producer in self._producers:
            if self._error is None:
                await producer.flush()
        for producer in self._producers:
            await producer.close(timeout=None if self._error is None else FAILED_CLOSE_S)
        if self._error is not None:
            raise ToolError(f"{self._error}{self._counts()}") from self._error

    def _counts(self) -> str:
        """Acknowledged is what every nsqd has acknowledged."""
        if not self._given_count:
            return ""
        acknowledged = min(producer.stats().messages for producer in self._producers)
        return f" ({acknowledged} of {self._given_count} messages were acknowledged)"
