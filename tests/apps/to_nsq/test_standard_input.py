import asyncio
import os
from pathlib import Path

import pytest
import uvloop

from nsqlake.apps.to_nsq.standard_input import read_chunks
from tests.fakes.loop_turns import next_turn


def run_read(descriptor: int) -> bytes:
    async def scenario() -> bytes:
        return b"".join([chunk async for chunk in read_chunks(descriptor)])

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(scenario())


def test_a_file_is_read_to_its_end(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x" * 600_000)
    with open(tmp_path / "file", "rb") as file:
        assert run_read(file.fileno()) == b"x" * 600_000


def test_a_device_without_content_is_at_its_end() -> None:
    with open(os.devnull, "rb") as file:
        assert run_read(file.fileno()) == b""


@pytest.mark.parametrize("is_blocking", [True, False])
def test_a_pipe_is_waited_for(*, is_blocking: bool) -> None:
    readable, writable = os.pipe()
    os.set_blocking(readable, is_blocking)

    async def scenario() -> list[bytes]:
        chunks = read_chunks(readable)
        first = asyncio.ensure_future(anext(chunks))
        for _ in range(5):
            await next_turn()
        was_waiting = not first.done()
        os.write(writable, b"late")
        got = [b"waited" if was_waiting else b"", await first]
        os.close(writable)
        return [*got, *[chunk async for chunk in chunks]]

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        assert runner.run(scenario()) == [b"waited", b"late"]
    os.close(readable)
