"""What can be seen of the running process."""

import asyncio
import threading
import tracemalloc

from nsqlake.nsqd.http.introspection import profile, stack_dump, thread_list, traced_memory


def test_the_stacks_of_threads_and_tasks_are_shown() -> None:
    async def waiting_for_godot() -> None:
        await asyncio.Event().wait()

    async def run() -> str:
        task = asyncio.create_task(waiting_for_godot(), name="godot")
        await asyncio.sleep(0)
        dump = stack_dump()
        task.cancel()
        return dump

    dump = asyncio.run(run())

    assert "thread MainThread\n" in dump
    assert "task godot\n" in dump
    assert "waiting_for_godot" in dump


def test_threads_are_listed() -> None:
    assert "MainThread daemon=False\n" in thread_list()


def test_memory_is_traced_only_while_somebody_asks() -> None:
    text = asyncio.run(traced_memory(0.0))

    assert text.startswith("traced now=")
    assert "gc generation 2" in text
    assert not tracemalloc.is_tracing()


def test_tracing_that_is_on_stays_on() -> None:
    tracemalloc.start()
    try:
        asyncio.run(traced_memory(3_600.0))
        assert tracemalloc.is_tracing()
    finally:
        tracemalloc.stop()


def test_a_profile_counts_stacks() -> None:
    lines = asyncio.run(profile(0.02)).splitlines()

    stack, _, count = next(line for line in lines if line.startswith("MainThread;")).rpartition(" ")
    assert "test_introspection.py:test_a_profile_counts_stacks" in stack
    assert int(count) >= 1


def test_a_profile_that_nobody_waits_for_ends() -> None:
    async def run() -> None:
        task = asyncio.create_task(profile(3_600.0))
        while not any("_sample" in line for line in stack_dump().splitlines()):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(run())  # waits for the threads it started

    assert not [thread for thread in threading.enumerate() if thread.name.startswith("asyncio_")]
