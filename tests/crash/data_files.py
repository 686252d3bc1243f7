"""What a topic's files hold, and ways to damage them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from nsqlake.topiclog.block import Span, block_size, decode_block
from nsqlake.topiclog.files import OS_FILES
from nsqlake.topiclog.identity import read_identity
from nsqlake.topiclog.segment import SEGMENT_HEADER_BYTES
from tests.crash.bodies import Key, decode


@dataclass(frozen=True, slots=True)
class BlockPlace:
    """A block in a segment file and the messages in it."""

    path: Path
    start: int
    end: int
    keys: frozenset[Key]


class TopicFiles:
    """The directory of one topic of a data path that no daemon uses."""

    def __init__(self, data_path: Path, topic: str) -> None:
        self.path = data_path / "topics" / f"{topic}.topic"
        self.log_path = self.path / "log"
        self.channels_path = self.path / "channels"

    @property
    def segments(self) -> list[Path]:
        return sorted(self.log_path.glob("*.log"))

    def blocks(self) -> list[BlockPlace]:
        identity = read_identity(OS_FILES, str(self.log_path))
        assert identity is not None
        return [block for path in self.segments for block in _blocks_of(path, identity.salt)]


def _blocks_of(path: Path, salt: int) -> list[BlockPlace]:
    data, position, found = path.read_bytes(), SEGMENT_HEADER_BYTES, []
    while position < len(data):
        span = decode_block(data, position, salt)
        assert isinstance(span, Span), span
        contents = [decode(span.body(number)) for number in range(span.count)]
        keys = frozenset(content.key for content in contents if content is not None)
        end = position + block_size(data, position)
        found.append(BlockPlace(path, position, end, keys))
        position = end
    return found


def touched(blocks: list[BlockPlace], path: Path, start: int, end: int) -> set[Key]:
    """The messages of every block of which a byte of [start, end) is part."""
    hit = [block for block in blocks if block.path == path and block.start < end and block.end > start]
    return {key for block in hit for key in block.keys}


def overwrite(path: Path, position: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(position)
        file.write(data)


def append(path: Path, data: bytes) -> None:
    with path.open("ab") as file:
        file.write(data)


def flip_bit(path: Path, bit: int) -> None:
    with path.open("r+b") as file:
        file.seek(bit // 8)
        value = file.read(1)[0]
        file.seek(bit // 8)
        file.write(bytes([value ^ 1 << bit % 8]))
