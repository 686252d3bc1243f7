"""A listener that remembers what its connection told it."""

from collections.abc import Callable

from nsqlake.client.connection import Connection
from nsqlake.client.errors import NsqClientError, ServerError
from tests.fakes.loop_turns import wait_until


class RecordingListener:
    def __init__(self, on_messages: Callable[[Connection], None] | None = None) -> None:
        self.events: list[str] = []
        self.responses: list[bytes] = []
        self.messages: list[bytes] = []
        self.runs: list[int] = []  # how many messages came in one call
        self.errors: list[ServerError] = []
        self.losses: list[NsqClientError | None] = []
        self._on_messages = on_messages

    def responses_received(self, _: Connection, payloads: list[bytes]) -> None:
        self.events += ["response"] * len(payloads)
        self.responses += payloads

    def error_received(self, _: Connection, error: ServerError) -> None:
        self.events.append("error")
        self.errors.append(error)

    def messages_received(self, connection: Connection, payloads: list[bytes]) -> None:
        self.events += ["message"] * len(payloads)
        self.messages += payloads
        self.runs.append(len(payloads))
        if self._on_messages is not None:
            self._on_messages(connection)

    def heartbeat_received(self, _: Connection) -> None:
        self.events.append("heartbeat")

    def connection_lost(self, _: Connection, error: NsqClientError | None) -> None:
        self.events.append("lost")
        self.losses.append(error)

    async def wait(self, event: str, count: int = 1) -> None:
        await wait_until(lambda: self.events.count(event) >= count)

    async def wait_lost(self) -> NsqClientError | None:
        await self.wait("lost")
        return self.losses[0]
