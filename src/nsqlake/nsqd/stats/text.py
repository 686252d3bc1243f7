"""`/stats` as text; scrapers know its columns."""

from collections.abc import Iterator
from datetime import UTC, datetime, tzinfo

from msgspec import UNSET
from msgspec.structs import asdict

from nsqlake.nsqd.stats.values import ChannelStats, ClientStats, Latency, Stats, TopicStats
from nsqlake.runtime.addresses import split_host_port
from nsqlake.runtime.durations import format_duration
from nsqlake.runtime.pace import run_in_slices
from nsqlake.runtime.version import version_line

__all__ = ["render_text"]

_SECOND_NS = 1_000_000_000
_UNITS = ((1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "us"))


async def render_text(stats: Stats, *, uptime_ns: int, now_ns: int, zone: tzinfo | None = None) -> str:
    """Made in slices; `zone` is that of the start time, by default the machine's."""
    found: list[str] = []
    await run_in_slices(map(found.append, _lines(stats, uptime_ns, now_ns, zone)))
    return "\n".join(found) + "\n"


def _lines(stats: Stats, uptime_ns: int, now_ns: int, zone: tzinfo | None) -> Iterator[str]:
    yield version_line("nsqd")
    yield f"start_time {_rfc3339(stats.start_time, zone)}"
    yield f"uptime {format_duration(uptime_ns)}"
    yield f"\nHealth: {stats.health}"
    if stats.memory is not UNSET:
        yield "\nMemory:"
        for name, value in asdict(stats.memory).items():
            yield f"   {name:<25}\t{value}"
    yield "\nTopics:" if stats.topics else "\nTopics: None"
    for number, topic in enumerate(stats.topics or []):
        yield ("\n" if number else "") + _topic_line(topic)
        for channel in topic.channels:
            yield _channel_line(channel)
            for client in channel.clients or []:
                yield f"        {_client_line(client, now_ns)}"
    yield "\nProducers:" if stats.producers else "\nProducers: None"
    for client in stats.producers or []:
        yield f"   {_client_line(client, now_ns)}"


def _topic_line(topic: TopicStats) -> str:
    return (
        f"{'*P ' if topic.paused else '   '}[{topic.topic_name:<15}] depth: {topic.depth:<5} "
        f"be-depth: {topic.backend_depth:<5} msgs: {topic.message_count:<8} "
        f"e2e%: {_latencies(topic.e2e_processing_latency)}"
    )


def _channel_line(channel: ChannelStats) -> str:
    return (
        f"{'   *P ' if channel.paused else '      '}[{channel.channel_name:<25}] depth: {channel.depth:<5} "
        f"be-depth: {channel.backend_depth:<5} inflt: {channel.in_flight_count:<4} "
        f"def: {channel.deferred_count:<4} re-q: {channel.requeue_count:<5} "
        f"timeout: {channel.timeout_count:<5} msgs: {channel.message_count:<8} "
        f"e2e%: {_latencies(channel.e2e_processing_latency)}"
    )


def _client_line(client: ClientStats, now_ns: int) -> str:
    _host, port = split_host_port(client.remote_address) or ("", "")
    name = f"{client.hostname}:{port} {client.user_agent}"
    connected_s = max(0, now_ns // _SECOND_NS - client.connect_ts)
    connected = f"connected: {format_duration(connected_s * _SECOND_NS)}"
    if client.pub_counts is not UNSET:
        total = sum(published.count for published in client.pub_counts)
        topics = ", ".join(f"{published.topic}={published.count}" for published in client.pub_counts)
        return f"[{client.version} {name:<21}] msgs: {total:<8} topics: {topics} {connected}"
    return (
        f"[{client.version} {name:<21}] state: {client.state} inflt: {client.in_flight_count:<4} "
        f"rdy: {client.ready_count:<4} fin: {client.finish_count:<8} re-q: {client.requeue_count:<8} "
        f"msgs: {client.message_count:<8} {connected}"
    )


def _latencies(latency: Latency) -> str:
    return ", ".join(_rounded(percentile.value) for percentile in latency.percentiles or [])


def _rounded(duration_ns: int) -> str:
    for scale, unit in _UNITS:
        if duration_ns > scale:
            return f"{duration_ns / scale:.1f}{unit}"
    return f"{duration_ns:.1f}ns"


def _rfc3339(seconds: int, zone: tzinfo | None) -> str:
    text = datetime.fromtimestamp(seconds, UTC).astimezone(zone).isoformat(timespec="seconds")
    return text.removesuffix("+00:00") + "Z" if text.endswith("+00:00") else text
