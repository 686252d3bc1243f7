"""All figures of one nsqd, for whoever asks: the HTTP API, Prometheus, statsd."""

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

from nsqlake.nsqd.stats.info import Info, describe_node
from nsqlake.nsqd.stats.loop_lag import measure_loop_lag
from nsqlake.nsqd.stats.memory import MemoryProbe
from nsqlake.nsqd.stats.observation import Observation, count_connections, sum_logs
from nsqlake.nsqd.stats.snapshot import Node, Query, take_snapshot, take_snapshot_in_slices
from nsqlake.nsqd.stats.statsd import StatsdTarget, expand_prefix, push_forever
from nsqlake.nsqd.stats.text import render_text
from nsqlake.nsqd.stats.values import Stats

if TYPE_CHECKING:
    from nsqlake.nsqd.broker import Broker
    from nsqlake.nsqd.options import NsqdOptions
    from nsqlake.nsqd.tcp_protocol import TcpConnection
    from nsqlake.runtime.clock import Clock
    from nsqlake.runtime.input_budget import InputBudget
    from nsqlake.runtime.tasks import TaskSupervisor

__all__ = ["NodeStats"]


class NodeStats:
    """Where the figures come from, and since when. `start` and `close` go with the daemon's."""

    def __init__(
        self,
        options: "NsqdOptions",
        broker: "Broker",
        connections: "Collection[TcpConnection]",
        clock: "Clock",
        tasks: "TaskSupervisor",
        *,
        budget: "InputBudget | None" = None,
    ) -> None:
        self._options, self._broker, self._connections = options, broker, connections
        self._clock, self._tasks, self._budget = clock, tasks, budget
        self._memory = MemoryProbe()
        self.start_ns = clock.timestamp_ns()
        self._start_steady_ns = clock.now_ns()
        self.accepted_connections: Callable[[], dict[str, int]] = dict  # since the start, by listener
        self.http_connections: Callable[[], dict[bool, int]] = dict  # by whether they are through TLS

    def start(self, http_port: int) -> None:
        """Watch the collector and the loop, and push to statsd if that is wanted."""
        self._memory.open()
        self._tasks.spawn(measure_loop_lag(self._broker.timings.loop_lag), "loop lag")
        if self._options.statsd_address:
            query = Query(include_clients=False, include_memory=self._options.statsd_mem_stats)
            target = self.statsd_target(http_port)
            self._tasks.spawn(push_forever(target, lambda: self.take_in_slices(query)), "statsd")

    def close(self) -> None:
        self._memory.close()

    def take(self, query: Query) -> Stats:
        return take_snapshot(self._broker, self._connections, query, self._node(), self._clock.now_ns())

    async def take_in_slices(self, query: Query) -> Stats:
        """What to use on the event loop."""
        return await take_snapshot_in_slices(
            self._broker, self._connections, query, self._node(), self._clock.now_ns()
        )

    async def text(self, stats: Stats) -> str:
        uptime_ns = self._clock.now_ns() - self._start_steady_ns
        return await render_text(stats, uptime_ns=uptime_ns, now_ns=self._clock.timestamp_ns())

    def info(self, *, tcp_port: int, http_port: int) -> Info:
        return describe_node(self._options, tcp_port=tcp_port, http_port=http_port, start_ns=self.start_ns)

    async def metrics(self) -> bytes:
        """Prometheus' text; its content type is `metrics.CONTENT_TYPE`."""
        from nsqlake.nsqd.stats.metrics import build_registry, render_metrics  # only when they are asked for

        return await render_metrics(await build_registry(await self.observe()))

    async def observe(self) -> Observation:
        return Observation(
            stats=await self.take_in_slices(Query(include_clients=False, include_memory=False)),
            timings=self._broker.timings,
            gc_pauses=self._memory.pauses,
            logs=sum_logs(list(self._broker.topics.values())),
            connections=count_connections(list(self._connections), self.http_connections()),
            accepted=self.accepted_connections(),
            memory_limit_bytes=self._options.mem_bytes,
            input_bytes=self._budget.total if self._budget is not None else 0,
            task_failures=self._tasks.failure_count,
            transactions=self._broker.transactions.figures,
        )

    def statsd_target(self, http_port: int) -> StatsdTarget:
        """`http_port` is the real one, used unless another is announced."""
        options = self._options
        port = options.broadcast_http_port or max(0, http_port)  # a unix socket has none
        return StatsdTarget(
            address=options.statsd_address,
            prefix=expand_prefix(options.statsd_prefix, options.broadcast_address, port),
            interval_ns=options.statsd_interval_ns,
            packet_bytes=options.statsd_udp_packet_size,
            exclude_ephemeral=options.statsd_exclude_ephemeral,
        )

    def _node(self) -> Node:
        return Node(
            start_ns=self.start_ns,
            memory=self._memory,
            percentiles=self._options.e2e_processing_latency_percentiles,
            counts_localities=self._options.mem_queue_size > 0,
            is_draining=self._broker.draining,
        )
