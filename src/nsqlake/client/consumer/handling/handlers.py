"""The user's functions: what kind they are, and middleware around them."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

AsyncHandler = Callable[[Any], Awaitable[object]]
Handler = Callable[[Any], Awaitable[object] | object]
Middleware = Callable[[Any, AsyncHandler], Awaitable[object]]


def is_async(handler: Handler) -> bool:
    """Whether it is a coroutine function, or an object that is called like one."""
    called = getattr(handler, "__call__", None)  # noqa: B004 - not whether, but what
    return inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(called)


def with_middleware(handler: Handler, middleware: Sequence[Middleware]) -> AsyncHandler:
    """`handler` inside all of `middleware`, the first one outermost; a plain handler runs in a thread."""
    wrapped: AsyncHandler = handler if is_async(handler) else _in_thread(handler)  # type: ignore[assignment]
    for layer in reversed(middleware):
        wrapped = _around(layer, wrapped)
    return wrapped


def _around(layer: Middleware, inner: AsyncHandler) -> AsyncHandler:
    async def call(job: Any) -> object:
        return await layer(job, inner)

    return call


def _in_thread(handler: Handler) -> AsyncHandler:
    async def call(job: Any) -> object:
        result = await asyncio.to_thread(handler, job)
        return await result if inspect.isawaitable(result) else result

    return call
