"""The nsqd daemon: start, serve until a signal, stop without losing anything."""

import asyncio
import gc
import logging
import os
import signal
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import uvloop

from nsqlake.nsqd.broker import Broker
from nsqlake.nsqd.data_path import open_data_path
from nsqlake.nsqd.data_store import DataStore
from nsqlake.nsqd.housekeeping import keep_house, keep_synced
from nsqlake.nsqd.input_budget import InputBudget
from nsqlake.nsqd.option_choices import TLS_MIN_VERSION
from nsqlake.nsqd.options import NsqdOptions
from nsqlake.nsqd.server import Server
from nsqlake.nsqd.tcp_protocol import TcpConnection
from nsqlake.nsqd.turn import Turn
from nsqlake.runtime.clock import Clock
from nsqlake.runtime.errors import StartupError
from nsqlake.runtime.listeners import Listener, connection_limit, raise_descriptor_limit
from nsqlake.runtime.tasks import TaskSupervisor
from nsqlake.runtime.tls_context import TlsContextHolder, build_server_context, key_file_warning
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
EXIT_FAILED = 1


def run(options: NsqdOptions) -> int:
    """Run nsqd until SIGTERM or SIGINT; the exit code. StartupError if it cannot start."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(_serve(options))


async def _serve(options: NsqdOptions) -> int:
    daemon = Daemon(options)
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    loop.add_signal_handler(signal.SIGHUP, daemon.reload_certificates)
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)  # as NSQ does
    await daemon.start()
    await stopping.wait()
    return 0 if await daemon.stop() else EXIT_FAILED


class Daemon:
    """One nsqd. `start` binds and loads, `stop` leaves everything on disk."""

    def __init__(self, options: NsqdOptions) -> None:
        self.options = options
        self.tasks = TaskSupervisor()
        self.connections: set[TcpConnection] = set()
        self._budget = InputBudget(max(options.mem_bytes, _MIN_INPUT_BYTES))

    async def start(self) -> None:
        options = self.options
        logger.info("%s", version_line("nsqd"))
        logger.info("ID: %d", options.node_id)
        self._lock = open_data_path(options.data_path)
        self._executor = ThreadPoolExecutor(_STORAGE_THREADS, thread_name_prefix="storage")
        try:
            clock = Clock()
            self._tls = self._build_tls()
            self._auth = self._build_auth(clock)
            self._open_listeners()
            turn = Turn(asyncio.get_running_loop(), clock, options)
            self._data = DataStore(OS_FILES, self._lock.path)
            self.broker = Broker(options, self._data, clock, turn, self._executor)
            self._server = Server(options, self.broker, clock, self.tasks, tls=self._tls, auth=self._auth)
            self._load()
        except BaseException:
            self._lock.close()
            self._executor.shutdown(wait=False)
            raise
        self._warn_if_open(options)
        self.tasks.spawn(keep_synced(self.broker, options), "sync")
        self.tasks.spawn(keep_house(self.broker, options), "housekeeping")
        gc.collect()
        gc.freeze()
        gc.set_threshold(*_GC_THRESHOLDS)
        self.tcp_listener.start()

    def _build_tls(self) -> TlsContextHolder | None:
        options = self.options
        if not options.tls_cert and not options.tls_key:
            return None
        warning = key_file_warning(options.tls_key)
        if warning:
            logger.warning("%s", warning)
        return TlsContextHolder(
            lambda: build_server_context(
                options.tls_cert,
                options.tls_key,
                client_auth_policy=options.tls_client_auth_policy,
                root_ca_file=options.tls_root_ca_file,
                min_version=TLS_MIN_VERSION.show(options.tls_min_version),
            )
        )

    def _build_auth(self, clock: Clock) -> "AuthServers | None":
        if not self.options.auth_http_addresses:
            return None
        from nsqlake.nsqd.auth import AuthServers  # brings httpx, which few installations need

        return AuthServers.from_options(self.options, clock)

    def _open_listeners(self) -> None:
        options = self.options
        limit = connection_limit(options.max_connections, raise_descriptor_limit())
        self.tcp_listener = Listener(
            "TCP",
            options.tcp_address,
            lambda on_closed: TcpConnection(self._server, self.connections, self._budget, on_closed),
            supervisor=self.tasks,
            limit=limit,
        )

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

    def _warn_if_open(self, options: NsqdOptions) -> None:
        host = options.tcp_address.rpartition(":")[0]
        is_local = host in ("127.0.0.1", "localhost", "[::1]") or os.sep in options.tcp_address
        if not is_local and not options.auth_http_addresses and not options.tls_required:
            logger.warning(
                "TCP: %s is open to everybody who can reach it: neither --tls-required nor "
                "--auth-http-address is set",
                options.tcp_address,
            )

    def reload_certificates(self) -> None:
        """New connections get the certificate that is on disk now."""
        if self._tls is None:
            return
        try:
            self._tls.reload()
        except StartupError as error:
            logger.error("TLS: certificates not reloaded, the old ones stay: %s", error)
        else:
            logger.info("TLS: certificates reloaded")

    async def stop(self) -> bool:
        """Stop accepting, disconnect, write everything, release the data path; whether all was written."""
        logger.info("NSQ: stopping subsystems")
        self.broker.is_exiting = True
        self.tcp_listener.close()
        self.broker.turn.write_journals()
        for connection in list(self.connections):
            connection.close()
        await self._wait_disconnected()
        await self.tasks.close()
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
