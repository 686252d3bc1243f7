"""The functions that a consumer tells what happens."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from nsqlake.client.hook_calls import Hook

__all__ = ["ConsumerHooks", "Hook"]


@dataclass(frozen=True, kw_only=True)
class ConsumerHooks:
    """Plain functions run on the event loop and must be short; coroutine functions run as tasks.

    Two can change something: `on_discovery` chooses among the addresses that were found, and a message is
    requeued instead of finished when `on_give_up` raises. This one runs in a thread if it is plain.
    """

    on_connect: Hook | None = None  # address
    on_ready: Hook | None = None  # address, when it may deliver
    on_disconnect: Hook | None = None  # address, error or None
    on_message: Hook | None = None  # message, on its arrival
    on_finish: Hook | None = None  # message
    on_requeue: Hook | None = None  # message, delay in seconds, backoff
    on_touch: Hook | None = None  # message
    on_expired: Hook | None = None  # message that nsqd took for lost
    on_give_up: Hook | None = None  # message with more attempts than allowed
    on_exception: Hook | None = None  # message or batch, exception of the handler
    on_error: Hook | None = None  # error frame, or why a connection failed
    on_backoff: Hook | None = None  # level, seconds
    on_resume: Hook | None = None  # level; 0: full rate
    on_rdy: Hook | None = None  # address, count
    on_heartbeat: Hook | None = None  # address
    on_discovery: Callable[[set[str]], Iterable[str]] | None = None
    on_stop: Hook | None = None
