"""A snapshot of a consumer."""

from __future__ import annotations

from dataclasses import asdict

from nsqlake.client.consumer.assembly import Assembly
from nsqlake.client.consumer.context import Context
from nsqlake.client.consumer.sources import NOTHING
from nsqlake.client.consumer.stats import ConsumerStats


def take_stats(context: Context, parts: Assembly | None, *, is_stopping: bool) -> ConsumerStats:
    """All zero before the start."""
    nodes = () if parts is None else parts.nodes.stats()
    control = None if parts is None else parts.control
    discovery = NOTHING if parts is None else parts.sources.discovery_stats()
    return ConsumerStats(
        **asdict(context.counters),
        connections=sum(node.state in ("ready", "closing") for node in nodes),
        in_flight=sum(node.in_flight for node in nodes),
        rdy=0 if control is None else control.rdy,
        queued=0 if parts is None else parts.intake.queued,
        running=0 if parts is None else parts.intake.running,
        max_in_flight=context.config.max_in_flight if control is None else control.max_in_flight,
        backoff_level=0 if control is None else control.backoff.level,
        backoff_wait_s=0.0 if control is None else control.wait_s,
        lookupd_rounds=discovery.rounds,
        failed_lookupd_rounds=discovery.failed_rounds,
        failed_lookupd_queries=discovery.failed_queries,
        is_starved=control is not None and control.flow.is_starved,
        is_paused=control is not None and control.is_paused,
        is_stopping=is_stopping,
        nodes=nodes,
    )
