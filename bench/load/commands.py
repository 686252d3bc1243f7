"""The bytes a load sends, made once before the clock starts.

On purpose not nsqlake's own encoders: a mistake there must not be mirrored by what measures it.
"""

import json
import struct
from collections.abc import Sequence

import numpy as np

MAGIC = b"  V2"
NOP = b"NOP\n"
CLS = b"CLS\n"
OK_FRAME = struct.pack(">ii", 6, 0) + b"OK"
INT32 = struct.Struct(">i")


def identify(**settings: int) -> bytes:
    body = json.dumps({"client_id": "bench", "user_agent": "nsqlake-bench", **settings}).encode()
    return b"IDENTIFY\n" + INT32.pack(len(body)) + body


def subscribe(topic: str, channel: str) -> bytes:
    return f"SUB {topic} {channel}\n".encode()


def ready(count: int) -> bytes:
    return b"RDY %d\n" % count


def publish(topic: str, body: bytes) -> bytes:
    return b"PUB %s\n" % topic.encode() + INT32.pack(len(body)) + body


def multi_publish(topic: str, bodies: Sequence[bytes]) -> bytes:
    records = b"".join(INT32.pack(len(body)) + body for body in bodies)
    head = INT32.pack(4 + len(records)) + INT32.pack(len(bodies))
    return b"MPUB %s\n" % topic.encode() + head + records


def make_bodies(count: int, min_bytes: int, max_bytes: int) -> list[bytes]:
    """Printable bodies, the same in every run, with sizes spread evenly over the range."""
    generator = np.random.default_rng(count)
    sizes = generator.integers(min_bytes, max_bytes, size=count, endpoint=True)
    text = generator.integers(
        ord("a"), ord("z"), size=max_bytes + count, endpoint=True, dtype=np.uint8
    ).tobytes()
    return [text[i : i + int(size)] for i, size in enumerate(sizes)]
