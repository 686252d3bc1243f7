"""Asking nsqlookupds again and again which nsqds have a topic.

nsqlookupds share no data, so every round asks all of them at once. Each answer counts as soon as it is there:
one that hangs holds up nobody, and is left out of further rounds until it has answered or its time is up.
Nothing follows from a round that failed or found less than the one before: no connection ends because of it.
"""

import asyncio
import logging
import random
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final

from nsqlake.client.config import ClientConfig
from nsqlake.client.errors import InvalidArgumentError
from nsqlake.client.tls import build_tls_context
from nsqlake.cluster.addresses import NSQLOOKUPD_HTTP_PORT, HttpAddress, parse_http_address
from nsqlake.cluster.errors import AddressError, RequestError, StatusError
from nsqlake.cluster.http_caller import HttpCaller
from nsqlake.cluster.lookupd_client import LookupdClient
from nsqlake.cluster.merging import merge_producers
from nsqlake.runtime.tasks import TaskSupervisor
from nsqlake.runtime.timers import Timer, Timers

logger = logging.getLogger(__name__)

MIN_GAP_S: Final = 5.0  # between a round and one that was asked for
MAX_CONNECT_S: Final = 10.0
MAX_REPLY_BYTES: Final = 8 * 1024 * 1024
UNKNOWN_TOPIC: Final = 404
ARGUMENT: Final = "lookupd_http_addresses"


@dataclass(frozen=True)
class DiscoveryStats:
    """Rounds so far; one has failed when nobody answered."""

    rounds: int
    failed_rounds: int
    failed_queries: int


class _Lookupd:
    """One nsqlookupd and how its last answer was, so that a lasting state is told once."""

    def __init__(self, client: LookupdClient) -> None:
        self.client = client
        self.is_being_asked = False
        self.state = ""

    def enters(self, state: str) -> bool:
        """Whether that is new."""
        is_new, self.state = state != self.state, state
        return is_new


class Discovery:
    """Calls `on_found` with addresses `broadcast_address:tcp_port` of nsqds, each once in a round.

    InvalidArgumentError for an address that cannot be asked.
    """

    def __init__(
        self,
        topic: str,
        lookupd_http_addresses: Iterable[str],
        config: ClientConfig,
        timers: Timers,
        on_found: Callable[[set[str]], object],
        *,
        random_source: random.Random | None = None,
        log_fields: Mapping[str, object] | None = None,
    ) -> None:
        self._topic = topic
        self._config = config
        self._interval_s = config.lookupd_poll_interval
        self._jitter = config.lookupd_poll_jitter
        self._timers = timers
        self._on_found = on_found
        self._random = random_source or random.Random()  # noqa: S311 - spreads load, hides nothing
        self._log_fields = {"topic": topic, **(log_fields or {})}
        self._caller = _caller(config)
        self._tasks = TaskSupervisor()
        self._lookupds: dict[HttpAddress, _Lookupd] = {}
        self._poll_timer: Timer | None = None
        self._request_timer: Timer | None = None
        self._next_poll_s = 0.0
        self._last_round_s = 0.0
        self._has_started = False
        self._has_answer = False
        self._is_known = asyncio.Event()  # whether anybody answers
        self._rounds = self._failed_rounds = self._failed_queries = 0
        for address in lookupd_http_addresses:
            self.add(address)

    @property
    def addresses(self) -> list[str]:
        return [str(address) for address in self._lookupds]

    def stats(self) -> DiscoveryStats:
        return DiscoveryStats(self._rounds, self._failed_rounds, self._failed_queries)

    def start(self) -> None:
        """The first round begins at once; a random time lies before the steady beat of the others."""
        self._has_started = True
        phase_s = self._random.random() * self._jitter * self._interval_s
        self._next_poll_s = self._timers.now_s() + phase_s + self._interval_s
        self._set_poll_timer()
        self._begin_round(self._lookupds.values())

    async def stop(self) -> None:
        """No call of `on_found` comes after this."""
        self._has_started = False
        for timer in (self._poll_timer, self._request_timer):
            if timer is not None:
                timer.cancel()
        await self._tasks.close()
        await self._caller.close()

    async def wait_answer(self) -> bool:
        """Until any nsqlookupd has answered for the first time, if only that it does not know the topic.

        False as soon as all of them have failed.
        """
        await self._is_known.wait()
        return self._has_answer

    def request_round(self) -> None:
        """Have one soon, because a connection was lost: at once, unless the last one was a moment ago."""
        if not self._has_started or self._request_timer is not None:
            return
        gap_s = min(MIN_GAP_S, self._interval_s)
        wait_s = self._last_round_s + gap_s - self._timers.now_s()
        self._request_timer = self._timers.call_later(max(0.0, wait_s), self._begin_requested)

    def add(self, address: str) -> None:
        """Nothing happens when it is there already; otherwise it is asked at once."""
        parsed = _parse(address)
        if parsed in self._lookupds:
            return
        if parsed.scheme == "https":
            build_tls_context(self._config)  # what is wrong with its files is told here and now
        lookupd = self._lookupds[parsed] = _Lookupd(LookupdClient(parsed, self._caller))
        if self._has_started:
            self._begin_round([lookupd])

    def remove(self, address: str) -> None:
        """The nsqds that it named stay connected. InvalidArgumentError when it is unknown or the last one."""
        parsed = _parse(address)
        if parsed not in self._lookupds:
            raise InvalidArgumentError(ARGUMENT, str(parsed), "is not in use")
        if len(self._lookupds) == 1:
            raise InvalidArgumentError(ARGUMENT, str(parsed), "is the only one left")
        del self._lookupds[parsed]

    # Rounds -------------------------------------------------------------------------------------------

    def _set_poll_timer(self) -> None:
        wait_s = self._next_poll_s - self._timers.now_s()
        self._poll_timer = self._timers.call_later(max(0.0, wait_s), self._poll)

    def _poll(self) -> None:
        late_s = max(0.0, self._timers.now_s() - self._next_poll_s)
        self._next_poll_s += self._interval_s * (1 + late_s // self._interval_s)  # missed ones are left out
        self._set_poll_timer()
        self._begin_round(self._lookupds.values())

    def _begin_requested(self) -> None:
        self._request_timer = None
        self._begin_round(self._lookupds.values())

    def _begin_round(self, lookupds: Iterable[_Lookupd]) -> None:
        self._last_round_s = self._timers.now_s()
        idle = [lookupd for lookupd in lookupds if not lookupd.is_being_asked]
        self._random.shuffle(idle)
        for lookupd in idle:
            lookupd.is_being_asked = True
        if idle:
            self._tasks.spawn(self._run_round(idle), f"lookup {self._topic}")

    async def _run_round(self, lookupds: list[_Lookupd]) -> None:
        found: set[str] = set()
        self._rounds += 1
        answered = await asyncio.gather(*(self._ask(lookupd, found) for lookupd in lookupds))
        if not any(answered):
            self._failed_rounds += 1
            logger.error("TOPIC(%s): no nsqlookupd answered", self._topic, extra=self._log_fields)
            self._is_known.set()

    async def _ask(self, lookupd: _Lookupd, found: set[str]) -> bool:
        """Whether it answered; what is new goes to `on_found`."""
        try:
            listed = await self._listed(lookupd)
        except RequestError as error:
            self._failed_queries += 1
            self._note(lookupd, logging.WARNING, f"query failed: {error}")
            return False
        finally:
            lookupd.is_being_asked = False
        self._has_answer = True
        self._is_known.set()
        if self._lookupds.get(lookupd.client.address) is lookupd:
            new = listed - found
            found |= new
            if new:
                self._on_found(new)
        return True

    async def _listed(self, lookupd: _Lookupd) -> set[str]:
        try:
            answer = await lookupd.client.lookup(self._topic)
        except StatusError as error:
            if error.status != UNKNOWN_TOPIC:
                raise
            self._note(lookupd, logging.INFO, "does not know the topic yet")
            return set()
        producers = merge_producers([answer.producers])
        self._note(lookupd, logging.INFO, f"lists nsqds count={len(producers)}")
        return {producer.tcp_address for producer in producers}

    def _note(self, lookupd: _Lookupd, level: int, state: str) -> None:
        level = level if lookupd.enters(state) else logging.DEBUG
        logger.log(
            level,
            "LOOKUPD(%s): topic=%s %s",
            lookupd.client.address,
            self._topic,
            state,
            extra=self._log_fields,
        )


def check_lookupd_addresses(addresses: list[str]) -> None:
    """InvalidArgumentError for the first that is none."""
    for address in addresses:
        _parse(address)


def _parse(address: str) -> HttpAddress:
    try:
        return parse_http_address(address, default_port=NSQLOOKUPD_HTTP_PORT)
    except AddressError as error:
        raise InvalidArgumentError(ARGUMENT, error.address, error.reason) from error


def _caller(config: ClientConfig) -> HttpCaller:
    return HttpCaller(
        connect_timeout_s=min(MAX_CONNECT_S, config.lookupd_poll_timeout),
        request_timeout_s=config.lookupd_poll_timeout,
        max_reply_bytes=MAX_REPLY_BYTES,
        bearer_token=config.auth_secret if config.lookupd_authorization else "",
        ssl_context=partial(build_tls_context, config),
    )
