"""Running a tool in the test's own process, or in one of its own."""

import asyncio
import contextlib
import io
import logging
import os
import re
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

DATE = r"\d{4}/\d\d/\d\d \d\d:\d\d:\d\d"
LIMIT_S = 20.0

Main = Callable[[Sequence[str]], int]


@dataclass(frozen=True)
class Ran:
    code: int
    out: bytes
    err: str

    @property
    def lines(self) -> list[str]:
        """What was logged, without the time."""
        return [re.sub(f"^{DATE} ", "", line) for line in self.err.splitlines()]


def run_in_process(
    main: Main, *flags: str, folder: Path, stdin: bytes | int = b"", output_path: str = ""
) -> Ran:
    """`folder` gets files for standard input and output; `stdin` may also be a descriptor to read."""
    if isinstance(stdin, bytes):
        (folder / "stdin").write_bytes(stdin)
    (folder / "stdout").touch()
    with (
        open(folder / "stdin" if isinstance(stdin, bytes) else stdin, encoding="utf-8") as given,
        open(output_path or folder / "stdout", "w", encoding="utf-8") as output,
        logging_as_before(),
        contextlib.redirect_stdout(output),
        contextlib.redirect_stderr(io.StringIO()) as errors,
    ):
        before, sys.stdin = sys.stdin, given
        try:
            code = main(flags)
        finally:
            sys.stdin = before
    return Ran(code, (folder / "stdout").read_bytes(), errors.getvalue())


@contextlib.contextmanager
def logging_as_before() -> Iterator[None]:
    root, package = logging.getLogger(), logging.getLogger("nsqlake")
    before = list(root.handlers), root.level, package.level
    try:
        yield
    finally:
        root.handlers[:] = before[0]
        root.setLevel(before[1])
        package.setLevel(before[2])


@contextlib.asynccontextmanager
async def running(tool: Coroutine[Any, Any, int]) -> AsyncIterator[None]:
    """A tool that runs until SIGTERM; the body must have seen it at work before it ends."""
    task = asyncio.create_task(tool)
    try:
        yield
        assert not task.done(), task.result()
        os.kill(os.getpid(), signal.SIGTERM)
        assert await asyncio.wait_for(task, LIMIT_S) == 0
    finally:
        task.cancel()


@contextlib.contextmanager
def tool_process(name: str, *flags: str) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-m", f"nsqlake.apps.{name}", *flags]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe) as process:
        try:
            yield process
        finally:
            process.kill()
