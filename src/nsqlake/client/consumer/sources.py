"""Where a consumer gets its nsqds from: named ones, and those that nsqlookupds find."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Final

from nsqlake.client.consumer.context import Context
from nsqlake.client.consumer.nodes import Nodes
from nsqlake.client.discovery import Discovery, DiscoveryStats
from nsqlake.client.errors import ConnectError, InvalidArgumentError
from nsqlake.runtime.timers import deadline

NOTHING: Final = DiscoveryStats(0, 0, 0)


class Sources:
    """Both may be used at once; what was found comes and goes, what was named stays."""

    def __init__(self, context: Context, make_nodes: Callable[[Callable[[], None]], Nodes]) -> None:
        self._context = context
        self._discovery: Discovery | None = None
        self.nodes = make_nodes(self._request_round)

    def start(self, nsqds: list[str], lookupds: list[str]) -> None:
        for address in nsqds:
            self.nodes.name(address)
        if lookupds:
            self._start_discovery(lookupds)

    async def wait_started(self) -> None:
        """Until all nsqds that are known now were tried; ConnectError if nobody was reached."""
        if self._discovery is not None and not list(self.nodes):
            limit_s, has_answer = self._context.config.lookupd_poll_timeout, False
            with contextlib.suppress(TimeoutError):
                async with deadline(self._context.timers, limit_s):
                    has_answer = await self._discovery.wait_answer()
            if not has_answer:
                raise ConnectError(", ".join(self._discovery.addresses), "no nsqlookupd answered")
        await self.nodes.wait_first_attempts()

    async def stop(self) -> None:
        """No more nsqds are looked for."""
        if self._discovery is not None:
            await self._discovery.stop()

    def add_lookupd(self, address: str) -> None:
        if self._discovery is None:
            self._start_discovery([address])
        else:
            self._discovery.add(address)

    def remove_lookupd(self, address: str) -> None:
        if self._discovery is None:
            raise InvalidArgumentError("address", address, "is not in use")
        self._discovery.remove(address)

    def discovery_stats(self) -> DiscoveryStats:
        return NOTHING if self._discovery is None else self._discovery.stats()

    def _start_discovery(self, lookupds: list[str]) -> None:
        context = self._context
        self._discovery = Discovery(
            context.topic,
            lookupds,
            context.config,
            context.timers,
            self._found,
            log_fields=context.log_fields(),
        )
        self._discovery.start()

    def _found(self, addresses: set[str]) -> None:
        choose = self._context.hooks.on_discovery
        self.nodes.found(addresses if choose is None else choose(set(addresses)))

    def _request_round(self) -> None:
        if self._discovery is not None:
            self._discovery.request_round()
