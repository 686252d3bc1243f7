"""A data path with one topic of twelve messages in several segments, as nsqd leaves it."""

import hashlib
import os
from pathlib import Path

from nsqlake.topiclog import LogOptions
from tests.nsqd.core.harness import START_NS, DiskTopic
from tests.nsqd.core.support import NOW_NS, publish

BODIES = [b"message %050d" % i for i in range(12)]
PER_SEGMENT = 3
BLOCK_BYTES = 52 + 4 + len(BODIES[0])


def make_data(path: Path, *, clean: bool = True, bodies: list[bytes] = BODIES) -> DiskTopic:
    path.mkdir(exist_ok=True)
    limit = 40 + PER_SEGMENT * BLOCK_BYTES
    disk = DiskTopic(str(path), log_options=LogOptions(mem_messages=0, max_bytes_per_file=limit))
    disk.open(START_NS)
    disk.add_channel("archive", START_NS)
    for i, body in enumerate(bodies):
        publish(disk.core, body, now_ns=NOW_NS + i * 1_000_000_000)
    if clean:
        disk.stop()
    else:
        disk.write_journal("archive", force=True)
        disk.kill()
    return disk


def segments(path: Path) -> list[Path]:
    return sorted(path.glob("topics/orders.topic/log/*.log"))


def fingerprint(path: Path) -> dict[str, tuple[str, int, int]]:
    """Content, mode and time of change of every file."""
    found = {}
    for folder, _folders, names in os.walk(path):
        for name in names:
            file = Path(folder, name)
            status = file.stat()
            digest = hashlib.sha256(file.read_bytes()).hexdigest()
            found[str(file)] = digest, status.st_mode, status.st_mtime_ns
    return found
