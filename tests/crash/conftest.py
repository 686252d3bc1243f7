"""Daemons that end with the test that started them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.crash.harness import PLAIN, Nsqd

StartNsqd = Callable[..., Nsqd]


@pytest.fixture
def start_nsqd(tmp_path: Path) -> Iterator[StartNsqd]:
    """`start_nsqd(*flags)` starts a daemon, on `tmp_path / "data"` unless `data_path` says otherwise."""
    with contextlib.ExitStack() as running:

        def start(
            *flags: str, data_path: Path | None = None, program: tuple[str, ...] = PLAIN, wait: bool = True
        ) -> Nsqd:
            path = tmp_path / "data" if data_path is None else data_path
            path.mkdir(exist_ok=True)
            nsqd = running.enter_context(Nsqd(path, *flags, program=program))
            if wait:
                nsqd.start()
            else:
                nsqd.spawn()
            return nsqd

        yield start
