"""Hooks of the user: plain or not, good or bad."""

import asyncio

import pytest

from nsqlake.client.hook_calls import HookCalls


def test_plain_hooks_run_at_once_and_coroutines_soon() -> None:
    told: list[str] = []

    async def later(name: str) -> None:
        told.append(name)

    async def scenario() -> None:
        calls = HookCalls()
        calls.call(later, "coroutine")
        calls.call(told.append, "plain")
        calls.call(None, "nobody")
        await calls.finish(1.0)

    asyncio.run(scenario())
    assert told == ["plain", "coroutine"]


def test_failures_are_logged_and_go_no_further(caplog: pytest.LogCaptureFixture) -> None:
    def bad() -> None:
        raise ValueError("plain")

    async def bad_later() -> None:
        raise ValueError("coroutine")

    async def scenario() -> None:
        calls = HookCalls()
        calls.call(bad)
        calls.call(bad_later)
        await calls.finish(1.0)

    asyncio.run(scenario())
    assert "ValueError: plain" in caplog.text
    assert "ValueError: coroutine" in caplog.text


def test_hooks_that_do_not_end_are_cancelled() -> None:
    cancelled: list[bool] = []

    async def endless() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.append(True)

    async def scenario() -> None:
        calls = HookCalls()
        calls.call(endless)
        await calls.finish(0.01)

    asyncio.run(scenario())
    assert cancelled == [True]
