"""Pushing figures to statsd: what is said, how it is cut into datagrams, and when they are sent."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass

from msgspec import UNSET
from msgspec.structs import asdict

from nsqlake.nsqd.stats.values import ChannelStats, Latency, Memory, Stats, TopicStats
from nsqlake.runtime.addresses import join_host_port, resolve_port, split_host_port
from nsqlake.runtime.pace import run_in_slices
from nsqlake.wire.names import is_ephemeral

__all__ = ["StatsdTarget", "expand_prefix", "lines", "packets", "push_forever"]

logger = logging.getLogger(__name__)

_QUIET_NS = 1_000_000_000  # at the end of every interval nothing is sent
_NO_CHANNELS: dict[str, ChannelStats] = {}


def expand_prefix(prefix: str, host: str, http_port: int) -> str:
    """The prefix with this host in it and a point behind it; "" stays so."""
    host_key = join_host_port(host, http_port).replace(".", "_").replace(":", "_")
    expanded = prefix.replace("%s", host_key)
    return f"{expanded}." if expanded and not expanded.endswith(".") else expanded


# What is said -----------------------------------------------------------------------------------------


def lines(
    previous: Stats | None, current: Stats, *, prefix: str = "", exclude_ephemeral: bool = False
) -> Iterator[bytes]:
    """One line per figure. Counters say how much came since `previous`, all there is without one."""
    before = {topic.topic_name: topic for topic in (previous.topics if previous else None) or []}
    for topic in current.topics or []:
        if not (exclude_ephemeral and is_ephemeral(topic.topic_name)):
            for line in _topic_lines(before.get(topic.topic_name), topic, exclude_ephemeral):
                yield f"{prefix}{line}\n".encode()
    if current.memory is not UNSET:
        old = previous.memory if previous is not None and previous.memory is not UNSET else None
        for line in _memory_lines(old, current.memory):
            yield f"{prefix}{line}\n".encode()


def _topic_lines(before: TopicStats | None, topic: TopicStats, exclude_ephemeral: bool) -> Iterator[str]:
    key = f"topic.{topic.topic_name}"
    yield _counter(key, "message_count", before, topic)
    yield _counter(key, "message_bytes", before, topic)
    yield _gauge(f"{key}.depth", topic.depth)
    yield _gauge(f"{key}.backend_depth", topic.backend_depth)
    yield from _latency_lines(key, topic.e2e_processing_latency)
    channels = {channel.channel_name: channel for channel in before.channels} if before else _NO_CHANNELS
    for channel in topic.channels:
        if not (exclude_ephemeral and is_ephemeral(channel.channel_name)):
            yield from _channel_lines(key, channels.get(channel.channel_name), channel)


def _channel_lines(topic_key: str, before: ChannelStats | None, channel: ChannelStats) -> Iterator[str]:
    key = f"{topic_key}.channel.{channel.channel_name}"
    yield _counter(key, "message_count", before, channel)
    yield _gauge(f"{key}.depth", channel.depth)
    yield _gauge(f"{key}.backend_depth", channel.backend_depth)
    yield _gauge(f"{key}.in_flight_count", channel.in_flight_count)
    yield _gauge(f"{key}.deferred_count", channel.deferred_count)
    yield _counter(key, "requeue_count", before, channel)
    yield _counter(key, "timeout_count", before, channel)
    yield _gauge(f"{key}.clients", channel.client_count)
    yield from _latency_lines(key, channel.e2e_processing_latency)


def _latency_lines(key: str, latency: Latency) -> Iterator[str]:
    for percentile in latency.percentiles or []:
        yield _gauge(f"{key}.e2e_processing_latency_{percentile.quantile * 100:.0f}", percentile.value)


def _memory_lines(before: Memory | None, memory: Memory) -> Iterator[str]:
    for name, value in asdict(memory).items():
        if name != "gc_total_runs":
            yield _gauge(f"mem.{name}", value)
    yield f"mem.gc_runs:{_growth('gc_total_runs', before, memory)}|c"


def _gauge(name: str, value: int) -> str:
    return f"{name}:{value}|g"


def _counter(key: str, name: str, before: object | None, now: object) -> str:
    return f"{key}.{name}:{_growth(name, before, now)}|c"


def _growth(name: str, before: object | None, now: object) -> int:
    """How much more of it there is; a topic that was deleted and made again counts from the beginning."""
    old: int = getattr(before, name, 0)
    new: int = getattr(now, name)
    return new - old if old <= new else new


# How it is sent ---------------------------------------------------------------------------------------


def packets(statsd_lines: Iterable[bytes], size: int) -> Iterator[bytes]:
    """Whole lines together up to `size` bytes; a longer one alone."""
    packet = b""
    for line in statsd_lines:
        if packet and len(packet) + len(line) > size:
            yield packet
            packet = b""
        packet += line
    if packet:
        yield packet


@dataclass(frozen=True, slots=True, kw_only=True)
class StatsdTarget:
    """Where to push, and how often; `prefix` is expanded."""

    address: str
    prefix: str
    interval_ns: int
    packet_bytes: int
    exclude_ephemeral: bool = False


class _Errors(asyncio.DatagramProtocol):
    """Remembers what the network said of the datagrams that were sent."""

    def __init__(self) -> None:
        self.last: OSError | None = None

    def error_received(self, error: Exception) -> None:
        self.last = error if isinstance(error, OSError) else OSError(str(error))


async def push_forever(
    target: StatsdTarget,
    take: Callable[[], Awaitable[Stats]],
    *,
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
) -> None:
    """Push what `take` returns at the end of every interval. Errors are logged when they begin and end."""
    previous: Stats | None = None
    is_failing = False
    wait_ns = target.interval_ns
    while True:
        await sleep(wait_ns / 1e9)
        current = await take()
        found = lines(previous, current, prefix=target.prefix, exclude_ephemeral=target.exclude_ephemeral)
        previous = current
        sent: list[bytes] = []
        await run_in_slices(map(sent.append, packets(found, target.packet_bytes)))
        spread_ns = max(0, target.interval_ns - _QUIET_NS)
        error = await _send(target.address, sent, spread_ns, sleep)
        wait_ns = target.interval_ns - (spread_ns if sent and error is None else 0)
        if error is not None and not is_failing:
            logger.warning("STATSD(%s): push failed, will be tried again: %s", target.address, error)
        elif error is None and is_failing:
            logger.info("STATSD(%s): pushes again", target.address)
        is_failing = error is not None


async def _send(
    address: str, datagrams: list[bytes], spread_ns: int, sleep: Callable[[float], Awaitable[object]]
) -> OSError | ValueError | None:
    """Evenly spaced over `spread_ns`, on a socket of their own; what went wrong last."""
    loop = asyncio.get_running_loop()
    try:
        host, port = split_host_port(address) or (address, "")
        transport, errors = await loop.create_datagram_endpoint(
            _Errors, remote_addr=(host or "localhost", resolve_port(port))
        )
    except (OSError, ValueError) as error:
        return error
    try:
        for datagram in datagrams:
            transport.sendto(datagram)
            await sleep(spread_ns / 1e9 / len(datagrams))
    except OSError as error:
        return error
    finally:
        transport.close()
    return errors.last
