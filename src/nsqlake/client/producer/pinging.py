"""Whether an nsqd is there: by what was heard from it, or by a new handshake."""

from __future__ import annotations

from collections.abc import Sequence

from nsqlake.client.config import ClientConfig
from nsqlake.client.connection import Connection, connect
from nsqlake.client.errors import ConnectError, NsqClientError, ServerError
from nsqlake.client.producer.node import Node
from nsqlake.runtime.timers import Timers


def check_heard_from(nodes: Sequence[Node], config: ClientConfig, now_s: float) -> None:
    """ConnectError unless a connection had something to say within two heartbeats."""
    silences_s = {
        node.address: now_s - node.pipe.connection.last_received_s
        for node in nodes
        if node.pipe is not None and node.is_ready
    }
    if not silences_s:
        raise ConnectError(nodes[0].address, "not connected")
    address = min(silences_s, key=silences_s.__getitem__)
    has_heartbeats = config.heartbeat_interval > 0
    if has_heartbeats and silences_s[address] > 2 * config.heartbeat_interval:
        raise ConnectError(address, f"nothing heard for {silences_s[address]:.1f} s")


async def handshake_once(addresses: Sequence[str], config: ClientConfig, timers: Timers) -> None:
    """Connect to the first that answers and disconnect; the error of the last one if none does."""
    last: ConnectError | None = None
    for address in addresses:
        try:
            connection = await connect(address, config, listener=_Deaf(), timers=timers)
        except ConnectError as error:
            last = error
            continue
        await connection.close()
        return
    assert last is not None  # there is at least one address
    raise last


class _Deaf:
    """A listener that has nothing to do."""

    def responses_received(self, connection: Connection, payloads: list[bytes]) -> None: ...
    def error_received(self, connection: Connection, error: ServerError) -> None: ...
    def messages_received(self, connection: Connection, payloads: list[bytes]) -> None: ...
    def heartbeat_received(self, connection: Connection) -> None: ...
    def connection_lost(self, connection: Connection, error: NsqClientError | None) -> None: ...
