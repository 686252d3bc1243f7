"""nsqd with a disk and a clock that misbehave while a switch, a file that tests make and remove, is there.

Run as `python -m tests.crash.launcher <faults as JSON> <flags of nsqd>`.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import nsqlake.topiclog.files
from tests.fakes.faulty_files import FaultyFiles

PROGRAM = "tests.crash.launcher"


def faulty(*faults: dict[str, Any]) -> tuple[str, str]:
    """The program for a daemon with these faults."""
    return PROGRAM, json.dumps(faults)


def fault(
    switch: Path,
    call: str,
    *,
    path: str = "",
    code: int = 0,
    delay_s: float = 0,
    allowed: int | None = None,
) -> dict[str, Any]:
    """While `switch` exists, `call`s on paths that contain `path` fail, wait, or write only so many bytes."""
    return {
        "switch": str(switch),
        "call": call,
        "path": path,
        "code": code,
        "delay_s": delay_s,
        "allowed": allowed,
    }


def clock_jump(switch: Path, shift_s: int) -> dict[str, Any]:
    """While `switch` exists the wall clock is off by `shift_s`."""
    return {"switch": str(switch), "call": "time_ns", "shift_s": shift_s}


class SwitchedFiles(FaultyFiles):
    """The real files, with the faults whose switch is on."""

    def __init__(self, faults: list[dict[str, Any]]) -> None:
        super().__init__()
        self._switched = faults

    def _strike(self, call: str, path: str) -> int | None:
        for fault in self._switched:
            if fault["call"] != call or fault["path"] not in path or not os.path.exists(fault["switch"]):
                continue
            time.sleep(fault["delay_s"])
            if fault["code"]:
                raise OSError(fault["code"], os.strerror(fault["code"]), path)
            if fault["allowed"] is not None:
                allowed: int = fault["allowed"]
                return allowed
        return None


def shift_clock(switch: str, shift_s: int) -> None:
    real_ns = time.time_ns

    def shifted_ns() -> int:
        return real_ns() + (shift_s * 1_000_000_000 if os.path.exists(switch) else 0)

    time.time_ns = shifted_ns


def main() -> int:
    faults = json.loads(sys.argv[1])
    for each in faults:
        if each["call"] == "time_ns":
            shift_clock(each["switch"], each["shift_s"])
    disk_faults = [each for each in faults if each["call"] != "time_ns"]
    # Before the daemon is imported: it takes files and clock when its modules are.
    nsqlake.topiclog.files.OS_FILES = SwitchedFiles(disk_faults)
    from nsqlake.apps.nsqd import main as run_nsqd

    return run_nsqd(sys.argv[2:])


if __name__ == "__main__":
    sys.exit(main())
