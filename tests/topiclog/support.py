"""Small steps that the tests of the log share."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from nsqlake.topiclog import LogOptions, RecoveryReport, TopicLog
from nsqlake.topiclog.block import Span, encode_block
from nsqlake.topiclog.files import OS_FILES, Files

SALT = 0x5EED
UUID = bytes(range(16))
FIRST = 1000
Message = tuple[int, bytes]


def framed(bodies: Sequence[bytes]) -> dict[str, Any]:
    """The arguments with which bodies are appended: equal sizes by one number, others by starts."""
    records = b"".join(len(body).to_bytes(4, "big") + body for body in bodies)
    sizes = {len(body) for body in bodies}
    arguments: dict[str, Any] = {"records": records, "count": len(bodies)}
    if len(sizes) == 1:
        return arguments | {"record_size": 4 + sizes.pop()}
    starts = [0]
    for body in bodies:
        starts.append(starts[-1] + 4 + len(body))
    return arguments | {"starts": starts}


def block(
    bodies: Sequence[bytes], base: int = 0, *, timestamp_ns: int = 7, due_ns: int = 0, tag: bytes = b""
) -> bytes:
    """A block as it lies in a segment."""
    times = {"timestamp_ns": timestamp_ns, "due_ns": due_ns}
    return b"".join(encode_block(**framed(bodies), base=base, salt=SALT, tag=tag, **times))


def open_log(
    path: Path | str, *, clean: bool = True, files: Files = OS_FILES, **options: int
) -> tuple[TopicLog, RecoveryReport]:
    """Nothing stays in memory unless `mem_messages` says so: most tests are about the disk."""
    return TopicLog.open(
        str(path),
        options=LogOptions(**{"mem_messages": 0, **options}),
        first_offset=FIRST,
        clean=clean,
        new_identity=(UUID, SALT),
        files=files,
    )


def append(
    log: Any, bodies: Sequence[bytes], *, timestamp_ns: int = 7, due_ns: int = 0, tag: bytes = b""
) -> int:
    offset: int = log.append(**framed(bodies), timestamp_ns=timestamp_ns, due_ns=due_ns, tag=tag)
    return offset


def messages_of(span: Span, offset: int = 0) -> list[Message]:
    return [(span.base + i, span.body(i)) for i in range(max(offset - span.base, 0), span.count)]


def drain(log: Any, offset: int = 0) -> list[Message]:
    """Every message from `offset` on, with its offset."""
    messages: list[Message] = []
    while (span := log.read(offset)) is not None:
        assert span.end > offset
        messages += messages_of(span, offset)
        offset = span.end
    return messages


def fill(log: Any, blocks: int, *, size: int = 100) -> list[Message]:
    """Append blocks of one message each; return the messages."""
    bodies = [b"%0*d" % (size, i) for i in range(blocks)]
    return [(append(log, [body]), body) for body in bodies]


def sync(log: TopicLog) -> None:
    job = log.begin_sync()
    if job is not None:
        job.run()
        log.end_sync(job, None)


def crash(log: TopicLog) -> None:
    """Stop as kill -9 does: nothing more is written."""
    log._close_descriptors()


def segment_paths(path: Path | str) -> list[str]:
    return sorted(os.path.join(path, name) for name in os.listdir(path) if name.endswith(".log"))


def index_paths(path: Path | str) -> list[str]:
    return sorted(os.path.join(path, name) for name in os.listdir(path) if name.endswith(".index"))


def flip_bit(path: str, bit: int) -> None:
    with open(path, "r+b") as file:
        file.seek(bit // 8)
        byte = file.read(1)[0]
        file.seek(bit // 8)
        file.write(bytes([byte ^ (1 << bit % 8)]))


def overwrite(path: str, position: int, data: bytes) -> None:
    with open(path, "r+b") as file:
        file.seek(position)
        file.write(data)


def append_bytes(path: str, data: bytes) -> None:
    with open(path, "ab") as file:
        file.write(data)


def truncate_by(path: str, nbytes: int) -> None:
    os.truncate(path, max(os.path.getsize(path) - nbytes, 0))
