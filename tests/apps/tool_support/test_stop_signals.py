import asyncio
import os
import signal
import subprocess
import sys

import pytest

from nsqlake.apps.tool_support.stop_signals import StopSignals

PROGRAM = """
import asyncio, itertools
from nsqlake.apps.tool_support.stop_signals import StopSignals

async def main():
    clock = itertools.count(0, {step})
    with StopSignals(now_s=lambda: next(clock)) as stop:
        print("ready", flush=True)
        await stop.wait()
        print("asked", flush=True)
        await asyncio.Event().wait()

asyncio.run(main())
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_asks_to_stop(number: signal.Signals) -> None:
    async def scenario() -> None:
        with StopSignals() as stop:
            os.kill(os.getpid(), number)
            os.kill(os.getpid(), number)
            async with asyncio.timeout(10):
                await stop.wait()

    asyncio.run(scenario())


def test_without_a_signal_nothing_is_asked_and_nothing_stays() -> None:
    async def scenario() -> None:
        before = signal.getsignal(signal.SIGTERM)
        with StopSignals() as stop:
            assert not stop.requested.is_set()
        assert signal.getsignal(signal.SIGTERM) is before

    asyncio.run(scenario())


def test_a_later_signal_does_not_wait() -> None:
    command = [sys.executable, "-c", PROGRAM.format(step=1)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        for line in (b"ready\n", b"asked\n"):
            assert process.stdout.readline() == line
            process.send_signal(signal.SIGTERM)

        assert process.wait(20) == -signal.SIGTERM
