"""The functions that a producer tells what happens."""

from __future__ import annotations

from dataclasses import dataclass

from nsqlake.client.hook_calls import Hook

__all__ = ["Hook", "ProducerHooks"]


@dataclass(frozen=True, kw_only=True)
class ProducerHooks:
    """Plain functions run on the event loop and must be short; coroutine functions run as tasks."""

    on_connect: Hook | None = None  # address
    on_disconnect: Hook | None = None  # address, error or None
    on_publish: Hook | None = None  # topic, messages, bytes
    on_published: Hook | None = None  # topic, seconds
    on_error: Hook | None = None  # a PublishError, or the ConnectError of an attempt
