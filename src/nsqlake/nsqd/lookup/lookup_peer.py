"""One nsqlookupd, kept up to date about this node for as long as the daemon runs.

The only state is what the broker holds. After every connect all of it is registered anew, so nothing has to
be remembered about a connection that broke; commands that wait are those that came after that moment.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from random import random

from nsqlake.nsqd.lookup.lookup_connection import LookupConnection, LookupdError, connect
from nsqlake.nsqd.lookup.lookup_tls import LookupTls
from nsqlake.runtime.addresses import join_host_port
from nsqlake.wire.errors import ProtocolError, RemoteError
from nsqlake.wire.lookup_commands import (
    MAGIC_V1,
    PING,
    TOO_MANY_REGISTRATIONS,
    LookupdDescription,
    NodeDescription,
    check_reply,
    decode_description,
    identify,
    is_unregister,
)

__all__ = ["LookupPeer", "LookupTiming"]

logger = logging.getLogger(__name__)

MAX_WAITING = 10_000  # commands that came since the last connect; more start from a new connection
_MAX_DOUBLINGS = 16


@dataclass(frozen=True, slots=True)
class LookupTiming:
    """`ping_s` and `limit_s` are NSQ's."""

    ping_s: float = 15.0
    limit_s: float = 1.0  # to connect, and for each reply
    first_retry_s: float = 1.0
    last_retry_s: float = 15.0
    shortest_retry_s: float = 0.1  # even when there is a new command

    def retry_s(self, failures: int, jitter: float) -> float:
        """Between half of the delay and all of it, so that nodes do not come back in step."""
        delay_s = self.first_retry_s * (1 << min(failures, _MAX_DOUBLINGS))
        return min(delay_s, self.last_retry_s) * (0.5 + jitter / 2)


class LookupPeer:
    """Connects, registers, pings and sends what it is told to, until `run` is cancelled."""

    def __init__(
        self,
        address: str,
        node: NodeDescription,
        registrations: Callable[[], list[bytes]],
        *,
        max_reply_bytes: int,
        timing: LookupTiming,
        tls: LookupTls | None = None,
    ) -> None:
        self.address = address
        self.http_address = ""  # as last told by it; "" when unknown
        self._node, self._registrations = node, registrations
        self._max_reply_bytes, self._timing, self._tls = max_reply_bytes, timing, tls
        self._waiting: deque[bytes] = deque()
        self._max_waiting = MAX_WAITING
        self._connection: LookupConnection | None = None
        self._woken = asyncio.Event()
        self.failures = 0  # in a row

    def __str__(self) -> str:
        return f"LOOKUPD({self.address})"

    @property
    def is_connected(self) -> bool:
        """Whether it has accepted who we are."""
        return self._connection is not None

    def send(self, command: bytes) -> None:
        """As soon as all before it is answered; without a connection one is tried for."""
        if len(self._waiting) < self._max_waiting:
            self._waiting.append(command)
        elif self._connection is not None:
            self._connection.fail("too slow, too many commands were waiting")
        self._woken.set()

    async def run(self) -> None:
        while True:
            try:
                await self._serve()
            except (LookupdError, ProtocolError) as error:
                await self._wait_for_retry(str(error))

    # One connection -----------------------------------------------------------------------------------

    async def _serve(self) -> None:
        connection = await connect(
            self.address,
            limit_s=self._timing.limit_s,
            max_reply_bytes=self._max_reply_bytes,
            on_lost=self._woken.set,
            tls=self._tls.context if self._tls else None,
        )
        try:
            await self._identify(connection)
            self._connection = connection
            await self._converse(connection)
        finally:
            self._connection = None
            connection.close()

    async def _identify(self, connection: LookupConnection) -> None:
        found = decode_description(await connection.exchange(MAGIC_V1 + identify(self._node)))
        self.http_address = self._find_http(found)
        if not self.http_address:
            logger.warning("%s: gave no usable address of its HTTP API, is not asked for channels", self)
        logger.info("%s: connected version=%s http=%s", self, found.version, self.http_address)
        self._begin_anew()

    def _find_http(self, found: LookupdDescription) -> str:
        """ "" when there is none that may be asked: who wants TLS to nsqlookupd wants it for its API too."""
        host = found.broadcast_address or ""
        if self._tls is not None:
            return f"https://{join_host_port(host, found.https_port or 0)}" if found.has_https else ""
        return join_host_port(host, found.http_port or 0) if found.has_http else ""

    def _begin_anew(self) -> None:
        # What was created meanwhile is among the registrations. What was deleted comes first:
        # so nsqlookupd forgets ephemeral names, and what exists again stays registered.
        deleted = list(filter(is_unregister, self._waiting))[-MAX_WAITING:]
        self._waiting = deque(deleted + self._registrations())
        self._max_waiting = len(self._waiting) + MAX_WAITING

    async def _converse(self, connection: LookupConnection) -> None:
        loop = asyncio.get_running_loop()
        ping_at = loop.time() + self._timing.ping_s
        while True:
            if loop.time() >= ping_at:
                check_reply(await connection.exchange(PING))
                ping_at = loop.time() + self._timing.ping_s
            elif self._waiting:
                self._check(await connection.exchange(self._waiting[0]))
                self._waiting.popleft()
            else:
                self.failures = 0
                await self._wait_woken(ping_at - loop.time())
                if connection.failure:
                    raise LookupdError(connection.failure)

    def _check(self, reply: bytes) -> None:
        try:
            check_reply(reply)
        except RemoteError as error:
            if error.code != TOO_MANY_REGISTRATIONS:
                raise
            # The connection stays, and so does what it knows already: to begin anew would not help.
            logger.warning("%s: %s", self, error)

    async def _wait_for_retry(self, reason: str) -> None:
        delay_s = self._timing.retry_s(self.failures, random())  # noqa: S311 - spreads load
        self.failures += 1
        logger.warning("%s: not connected retry_s=%.1f: %s", self, delay_s, reason)
        self._woken.clear()
        shortest_s = min(delay_s, self._timing.shortest_retry_s)
        await asyncio.sleep(shortest_s)
        await self._wait_woken(delay_s - shortest_s)

    async def _wait_woken(self, limit_s: float) -> None:
        try:
            async with asyncio.timeout(limit_s):
                await self._woken.wait()
        except TimeoutError:
            return
        self._woken.clear()
