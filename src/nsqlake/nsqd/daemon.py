"""The nsqd daemon: start, serve until a signal, stop without losing anything."""

import asyncio
import gc
import logging
import signal
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING

import uvloop

from nsqlake.nsqd.broker import Broker
from nsqlake.nsqd.data_path import open_data_path
from nsqlake.nsqd.data_store import DataStore
from nsqlake.nsqd.draining import wait_drained
from nsqlake.nsqd.exposure import warn_if_open
from nsqlake.nsqd.housekeeping import keep_house, keep_synced
from nsqlake.nsqd.http.api import HttpApi
from nsqlake.nsqd.http.services import Services
from nsqlake.nsqd.http.tls_gate import tls_gate
from nsqlake.nsqd.lookup.announcements import announce
from nsqlake.nsqd.lookup.lookup_tls import LookupTls
from nsqlake.nsqd.option_choices import EXPERIMENTS
from nsqlake.nsqd.options import NsqdOptions
from nsqlake.nsqd.server import Server
from nsqlake.nsqd.stats.node_stats import NodeStats
from nsqlake.nsqd.tcp_protocol import TcpConnection
from nsqlake.nsqd.turn import Turn
from nsqlake.runtime.clock import Clock
from nsqlake.runtime.errors import StartupError
from nsqlake.runtime.http.front import HttpFront
from nsqlake.runtime.input_budget import InputBudget
from nsqlake.runtime.listeners import Listener, connection_limit, raise_descriptor_limit
from nsqlake.runtime.server_tls import open_server_tls, reload_certificates
from nsqlake.runtime.tasks import TaskSupervisor
from nsqlake.runtime.version import version_line
from nsqlake.topiclog.files import OS_FILES

if TYPE_CHECKING:
    from nsqlake.nsqd.auth import AuthServers

__all__ = ["Daemon", "run"]

logger = logging.getLogger(__name__)

_STORAGE_THREADS = 4
_MIN_INPUT_BYTES = 64 * 1024 * 1024
_GC_THRESHOLDS = (50_000, 50, 100)  # no pauses on the hot path, which makes no cycles
_CLOSE_LIMIT_S = 2.0
_HTTP_SHARE = 8  # of the file descriptors, for HTTP and as many for HTTPS
EXIT_FAILED = 1


def run(options: NsqdOptions) -> int:
    """Run nsqd until SIGTERM, SIGINT or drained; the exit code. StartupError if it cannot start."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(_serve(options))


async def _serve(options: NsqdOptions) -> int:
    daemon = Daemon(options)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, daemon.stopping.set)
    loop.add_signal_handler(signal.SIGHUP, daemon.reload_certificates)
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)  # until there is something to drain
    await daemon.start()
    loop.add_signal_handler(signal.SIGUSR1, daemon.broker.start_drain)
    await daemon.stopping.wait()
    return 0 if await daemon.stop() else EXIT_FAILED


class Daemon:
    """One nsqd. `start` binds and loads, `stop` leaves everything on disk."""

    def __init__(
        self, options: NsqdOptions, *, clock: Clock | None = None, turn_class: type[Turn] = Turn
    ) -> None:
        self.options = options
        self._clock, self._turn_class = clock or Clock(), turn_class
        self.tasks = TaskSupervisor()
        self.connections: set[TcpConnection] = set()
        self.stopping = asyncio.Event()  # somebody wants the daemon to stop, or it has been drained
        self._budget = InputBudget(max(options.mem_bytes, _MIN_INPUT_BYTES))

    async def start(self) -> None:
        options = self.options
        logger.info("%s", version_line("nsqd"))
        logger.info("ID: %d", options.node_id)
        with ExitStack() as undo:
            self._lock = open_data_path(options.data_path)
            undo.callback(self._lock.close)
            self._executor = ThreadPoolExecutor(_STORAGE_THREADS, thread_name_prefix="storage")
            undo.callback(self._executor.shutdown, wait=False)
            clock = self._clock
            self._tls = open_server_tls(options)
            self._lookup_tls = LookupTls.from_options(options)
            self._auth = self._build_auth(clock)
            self._open_listeners(undo)
            turn = self._turn_class(asyncio.get_running_loop(), clock, options)
            self._data = DataStore(OS_FILES, self._lock.path)
            self.broker = Broker(options, self._data, clock, turn, self._executor)
            self._server = Server(options, self.broker, clock, self.tasks, tls=self._tls, auth=self._auth)
            self._load()
            undo.pop_all()
        await self.broker.transactions.finish_committed()
        warn_if_open(options)
        self._warn_of_unknown_experiments(options)
        self.tasks.keep(lambda: keep_synced(self.broker, options), "sync")
        self.tasks.keep(lambda: keep_house(self.broker, options), "housekeeping")
        self.broker.on_drain.append(self._watch_drain)
        self._serve_clients(clock)

    def _serve_clients(self, clock: Clock) -> None:
        options, http = self.options, self.http
        self.stats = NodeStats(options, self.broker, self.connections, clock, self.tasks, budget=self._budget)
        self.stats.http_connections = http.connection_counts
        self.stats.accepted_connections = lambda: {
            "tcp": self.tcp_listener.accepted_count,
            **http.accepted_counts(),
        }
        self.stats.start(max(0, http.http_port))
        self.announcements = announce(
            self.broker,
            options,
            self.tasks,
            tcp_port=self.tcp_listener.port,
            http_port=http.http_port,
            tls=self._lookup_tls,
        )
        self.api = HttpApi(
            Services(
                options=options,
                broker=self.broker,
                stats=self.stats,
                announcements=self.announcements,
                clock=clock,
                tasks=self.tasks,
                auth=self._auth,
                tcp_port=self.tcp_listener.port,
                http_port=http.http_port,
                https_port=http.https_port,
            )
        )
        gc.collect()
        gc.freeze()
        gc.set_threshold(*_GC_THRESHOLDS)
        self.tcp_listener.start()
        http.start(self.api.router)

    def _build_auth(self, clock: Clock) -> "AuthServers | None":
        if not self.options.auth_http_addresses:
            return None
        from nsqlake.nsqd.auth import AuthServers  # brings httpx, which few installations need

        return AuthServers.from_options(self.options, clock)

    def _open_listeners(self, undo: ExitStack) -> None:
        options, descriptors = self.options, raise_descriptor_limit()
        http_share = max(1, descriptors // _HTTP_SHARE)
        self.tcp_listener = Listener(
            "TCP",
            options.tcp_address,
            lambda on_closed: TcpConnection(self._server, self.connections, self._budget, on_closed),
            supervisor=self.tasks,
            limit=connection_limit(options.max_connections, descriptors - 2 * http_share),
        )
        undo.callback(self.tcp_listener.close)
        self.http = HttpFront(
            options.http_address,
            options.https_address,
            tasks=self.tasks,
            tls=self._tls,
            budget=self._budget,
            limit=min(http_share, options.max_connections or http_share),
            gate=partial(tls_gate, options),
        )
        undo.callback(self.http.stop_accepting)

    def _load(self) -> None:
        try:
            clean, names = self._data.open()
            unrecorded = self._data.mark_start()
        except OSError as error:
            raise StartupError(f"{error}", during="failed to load metadata") from error
        if unrecorded is not None:
            # On a full disk the daemon starts all the same: consumers can drain, publishers are told.
            logger.error("DATA(%s): start not recorded: %s", self._lock.path, unrecorded)
        self.broker.load(names, clean=clean)

    def _warn_of_unknown_experiments(self, options: NsqdOptions) -> None:
        for name in options.enable_experiment:
            if name not in EXPERIMENTS:
                known = ", ".join(EXPERIMENTS)
                logger.warning("ignored --enable-experiment=%s: the known ones are %s", name, known)

    def reload_certificates(self) -> None:
        """New connections get the certificate that is on disk now."""
        reload_certificates(self._tls, self._lookup_tls)

    def _watch_drain(self) -> None:
        self.tasks.spawn(self._stop_when_drained(), "drain")

    async def _stop_when_drained(self) -> None:
        await wait_drained(self.broker)
        self.stopping.set()

    async def stop(self) -> bool:
        """Stop accepting, disconnect, write everything, release the data path; whether all was written."""
        logger.info("NSQ: stopping subsystems")
        self.broker.begin_exit()
        await self.announcements.close()
        self.tcp_listener.close()
        self.http.stop_accepting()
        self.broker.turn.write_journals()
        for connection in list(self.connections):
            connection.close()
        await asyncio.gather(self._wait_disconnected(), self.http.close(_CLOSE_LIMIT_S))
        await self.tasks.close()
        self.stats.close()
        if self._auth is not None:
            await self._auth.close()
        went_well = await self.broker.close()
        if went_well and not self.broker.broken:
            try:
                self._data.mark(clean=True)
            except OSError as error:
                logger.error("DATA(%s): stop not recorded: %s", self._lock.path, error)
        self._executor.shutdown()
        self._lock.close()
        logger.info("NSQ: bye")
        return went_well

    async def _wait_disconnected(self) -> None:
        loop = asyncio.get_running_loop()
        limit = loop.time() + _CLOSE_LIMIT_S
        while self.connections and loop.time() < limit:
            await asyncio.sleep(0.005)
        for connection in list(self.connections):
            connection.drop()
        await asyncio.sleep(0)
