import asyncio
import os
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from nsqlake.apps.nsq_tail.output import Output

PIPE_BYTES = 1024 * 1024  # more than a pipe holds


async def through_pipe(scenario: Callable[[Output, int], Coroutine[Any, Any, None]]) -> None:
    readable, writable = os.pipe()
    output = Output(writable)
    try:
        await scenario(output, readable)
    finally:
        output.close()
        os.close(writable)


def read(descriptor: int, count: int) -> bytes:
    data = b""
    while len(data) < count:
        data += os.read(descriptor, count - len(data))
    return data


def test_what_is_written_arrives_in_order() -> None:
    async def scenario(output: Output, readable: int) -> None:
        await asyncio.gather(*(output.write(b"%d " % number) for number in range(10)))

        assert read(readable, 20) == b"0 1 2 3 4 5 6 7 8 9 "

    asyncio.run(through_pipe(scenario))


def test_a_reader_who_pauses_does_not_stop_the_loop() -> None:
    async def scenario(output: Output, readable: int) -> None:
        writing = asyncio.create_task(output.write(b"x" * PIPE_BYTES))
        for _ in range(10):
            await asyncio.sleep(0)
        assert not writing.done()

        assert len(await asyncio.to_thread(read, readable, PIPE_BYTES)) == PIPE_BYTES
        await writing

    asyncio.run(through_pipe(scenario))


def test_whoever_writes_is_told_of_an_error() -> None:
    async def scenario(output: Output, readable: int) -> None:
        os.close(readable)

        with pytest.raises(BrokenPipeError):
            await output.write(b"x")

    asyncio.run(through_pipe(scenario))


def test_giving_up_a_write_disturbs_no_other() -> None:
    async def scenario(output: Output, readable: int) -> None:
        given_up = asyncio.create_task(output.write(b"a"))
        await asyncio.sleep(0)
        given_up.cancel()
        await output.write(b"b")

        assert read(readable, 2) == b"ab"

    asyncio.run(through_pipe(scenario))
