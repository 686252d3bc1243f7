"""The nsqlookupd daemon: start, serve until a signal, stop."""

import asyncio
import gc
import logging
import signal
from contextlib import ExitStack

import uvloop

from nsqlake import NSQ_VERSION
from nsqlake.nsqlookupd.http_endpoints import HttpApi
from nsqlake.nsqlookupd.metrics import Metrics
from nsqlake.nsqlookupd.options import NsqlookupdOptions
from nsqlake.nsqlookupd.peers import Peer
from nsqlake.nsqlookupd.registration_db import RegistrationDb
from nsqlake.nsqlookupd.tcp_protocol import PeerServer
from nsqlake.runtime.addresses import host_name, is_local_address
from nsqlake.runtime.clock import Clock
from nsqlake.runtime.http import Router, encode_json
from nsqlake.runtime.http.front import HttpFront
from nsqlake.runtime.input_budget import InputBudget
from nsqlake.runtime.listeners import Listener, connection_limit, raise_descriptor_limit
from nsqlake.runtime.pace import run_in_slices
from nsqlake.runtime.server_tls import open_server_tls, reload_certificates
from nsqlake.runtime.tasks import TaskSupervisor
from nsqlake.runtime.version import version_line

__all__ = ["Daemon", "run"]

logger = logging.getLogger(__name__)

INPUT_BYTES = 64 * 1024 * 1024  # unfinished commands and requests of all connections together
_CLOSE_LIMIT_S = 2.0
_CLEAR_INTERVAL_S = 1.0
_TCP_SHARE = 4  # of the file descriptors; the rest is for HTTP and HTTPS, where the many consumers are
_GC_THRESHOLDS = (50_000, 50, 100)


def run(options: NsqlookupdOptions) -> int:
    """Run nsqlookupd until SIGTERM or SIGINT; the exit code. StartupError if it cannot start."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(_serve(options))


async def _serve(options: NsqlookupdOptions) -> int:
    daemon = Daemon(options)
    loop, stopping = asyncio.get_running_loop(), asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    loop.add_signal_handler(signal.SIGHUP, daemon.reload_certificates)
    await daemon.start()
    gc.set_threshold(*_GC_THRESHOLDS)
    await stopping.wait()
    await daemon.stop()
    return 0


class Daemon:
    """One nsqlookupd. It has nothing on disk: after a start every nsqd registers anew."""

    def __init__(self, options: NsqlookupdOptions, *, clock: Clock | None = None) -> None:
        self.options = options
        self.tasks = TaskSupervisor()
        self._clock = clock or Clock()
        self._budget = InputBudget(INPUT_BYTES)
        self.db = RegistrationDb(
            inactive_ns=options.inactive_producer_timeout_ns,
            tombstone_ns=options.tombstone_lifetime_ns,
            max_registrations=options.max_registrations,
            max_per_peer=options.max_registrations_per_peer,
        )

    async def start(self) -> None:
        logger.info("%s", version_line("nsqlookupd"))
        with ExitStack() as undo:
            self._tls = open_server_tls(self.options)
            self.peers = PeerServer(
                self.db,
                self._clock,
                tls=self._tls,
                must_certify_address=self.options.tls_match_broadcast_address,
                budget=self._budget,
            )
            self._open_listeners(undo)
            undo.pop_all()
        self._warn_if_open()
        self.peers.description = self._describe()
        metrics = Metrics(self.db, self._clock)
        self.api = HttpApi(self.db, self._clock, metrics.render)
        self._connect_metrics(metrics)
        self.tasks.keep(self._clear_traces, "clear traces")
        self.tcp_listener.start()
        self.http.start(Router(self.api.routes()))

    async def stop(self) -> None:
        """Accept no more, and close every connection."""
        self.tcp_listener.close()
        self.http.stop_accepting()
        await asyncio.gather(self.peers.close(_CLOSE_LIMIT_S), self.http.close(_CLOSE_LIMIT_S))
        await self.tasks.close()
        logger.info("NSQLOOKUPD: bye")

    def find_producers(self, topic: str) -> list[Peer]:
        """Those that consumers of the topic are sent to now."""
        return self.db.producers(topic, self._clock.now_ns())

    def reload_certificates(self) -> None:
        """New connections get the certificate that is on disk now."""
        reload_certificates(self._tls)

    def _open_listeners(self, undo: ExitStack) -> None:
        options, descriptors = self.options, raise_descriptor_limit()
        tcp_share = max(1, descriptors // _TCP_SHARE)
        self.tcp_listener = Listener(
            "TCP",
            options.tcp_address,
            self.peers.protocol_factory,
            supervisor=self.tasks,
            limit=connection_limit(options.max_connections, tcp_share),
        )
        undo.callback(self.tcp_listener.close)
        self.http = HttpFront(
            options.http_address,
            options.https_address,
            tasks=self.tasks,
            tls=self._tls,
            budget=self._budget,
            limit=connection_limit(options.max_connections, (descriptors - tcp_share) // 2),
        )
        undo.callback(self.http.stop_accepting)

    def _describe(self) -> bytes:
        """The answer to IDENTIFY. `https_port` is ours; NSQ's nsqd skips it."""
        http = self.http
        fields: dict[str, str | int] = {
            "broadcast_address": self.options.broadcast_address,
            "hostname": host_name(),
            "http_port": max(0, http.http_port),
            "tcp_port": max(0, self.tcp_listener.port),
            "version": NSQ_VERSION,
        }
        if http.https_port > 0:
            fields["https_port"] = http.https_port
        return encode_json(fields)

    def _connect_metrics(self, metrics: Metrics) -> None:
        listener, http, peers = self.tcp_listener, self.http, self.peers
        metrics.open_connections = lambda: {"tcp": listener.open_count, **http.open_counts()}
        metrics.accepted_connections = lambda: {"tcp": listener.accepted_count, **http.accepted_counts()}
        metrics.errors = lambda: peers.error_counts
        metrics.commands = lambda: peers.command_count
        metrics.http_requests = lambda: self.api.request_counts

    def _warn_if_open(self) -> None:
        options = self.options
        if not options.tls_client_auth_policy and not is_local_address(options.tcp_address):
            text = "TCP: %s is open to everybody who can reach it: --tls-client-auth-policy is not set"
            logger.warning(text, options.tcp_address)

    async def _clear_traces(self) -> None:
        while True:
            if self.db.has_traces:
                await run_in_slices(self.db.clear_traces())
            await asyncio.sleep(_CLEAR_INTERVAL_S)
