"""What a consumer counts."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class ConnectionStats:
    """One nsqd as the consumer sees it; `last_received_s` is how long ago."""

    address: str
    state: str  # connecting, ready, closing, waiting
    rdy: int = 0
    in_flight: int = 0
    received: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    last_received_s: float = 0.0
    last_error: str = ""


@dataclass(frozen=True, kw_only=True)
class ConsumerStats:
    """A snapshot; `connections` are those that are ready or closing."""

    received: int
    finished: int
    requeued: int
    requeued_without_backoff: int
    touched: int
    expired: int
    given_up: int
    late_answers: int
    dropped_answers: int
    handler_exceptions: int
    handled: int
    connects: int
    disconnects: int
    failed_connects: int
    heartbeats: int
    abandoned: int
    connections: int
    in_flight: int
    rdy: int
    queued: int
    running: int
    max_in_flight: int
    backoff_level: int
    backoff_wait_s: float
    lookupd_rounds: int
    failed_lookupd_rounds: int
    failed_lookupd_queries: int
    is_starved: bool
    is_paused: bool
    is_stopping: bool
    nodes: tuple[ConnectionStats, ...]


@dataclass(slots=True)
class Counters:
    """Of one consumer since its start; messages unless the name says otherwise."""

    received: int = 0
    finished: int = 0
    requeued: int = 0
    requeued_without_backoff: int = 0  # among `requeued`
    touched: int = 0
    expired: int = 0
    given_up: int = 0
    late_answers: int = 0
    dropped_answers: int = 0
    handler_exceptions: int = 0
    handled: int = 0  # runs of the handler
    connects: int = 0
    disconnects: int = 0
    failed_connects: int = 0
    heartbeats: int = 0
    abandoned: int = 0  # unanswered at the end of a stop
