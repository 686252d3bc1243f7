"""A log as its files tell it, for whoever does not own it: nothing is repaired, cut or moved."""

import os
from dataclasses import dataclass

from nsqlake.topiclog.block import Span
from nsqlake.topiclog.damage import Damage, DamageCounter
from nsqlake.topiclog.files import Files, read_all
from nsqlake.topiclog.identity import Identity, read_identity
from nsqlake.topiclog.index import BlockIndex
from nsqlake.topiclog.reader import SegmentReader
from nsqlake.topiclog.scan import Scan, scan_segment
from nsqlake.topiclog.segment import (
    SEGMENT_HEADER_BYTES,
    Segment,
    SegmentHeader,
    index_path,
    parse_segment_name,
    segment_name,
)
from nsqlake.topiclog.segment_list import SegmentList

__all__ = ["LogView", "SegmentFile", "find_identity", "list_segments", "load_index", "scan_file"]


@dataclass(frozen=True, slots=True)
class SegmentFile:
    """A file that is named like a segment; `header` is None when it is damaged."""

    path: str
    base: int
    size: int
    header: SegmentHeader | None


def list_segments(files: Files, directory: str) -> list[SegmentFile]:
    """By offset; a file that a running daemon removes meanwhile is left out."""
    names = files.listdir(directory)
    bases = sorted(base for name in names if (base := parse_segment_name(name)) is not None)
    found = (_look_at(files, os.path.join(directory, segment_name(base)), base) for base in bases)
    return [segment for segment in found if segment is not None]


def _look_at(files: Files, path: str, base: int) -> SegmentFile | None:
    try:
        fd = files.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return None
    try:
        head = files.pread(fd, SEGMENT_HEADER_BYTES, 0)
        return SegmentFile(path, base, files.size(fd), SegmentHeader.decode(head))
    finally:
        files.close(fd)


def find_identity(files: Files, directory: str, segments: list[SegmentFile]) -> Identity | None:
    """The identity file's, or what the newest segment tells; None when nothing does."""
    kept = read_identity(files, directory)
    headers = [segment.header for segment in segments if segment.header is not None]
    if kept is not None or not headers:
        return kept
    newest = headers[-1]
    return Identity(newest.uuid, newest.salt, newest.epoch, floor=0)


def load_index(files: Files, segment: SegmentFile) -> tuple[BlockIndex, int] | None:
    """The index beside the segment and the size it was written for, None when absent or damaged."""
    try:
        loaded = BlockIndex.decode(read_all(files, index_path(segment.path)))
    except OSError:
        return None
    return loaded if loaded is not None and loaded[0].base == segment.base else None


def scan_file(files: Files, segment: SegmentFile, salt: int) -> Scan:
    """Every block of the segment, its checksum checked."""
    fd = files.open(segment.path, os.O_RDONLY)
    try:
        return scan_segment(files, fd, segment.size, salt=salt, base=segment.base)
    finally:
        files.close(fd)


class LogView:
    """The messages of a log, read once from the files as they were when it was opened."""

    def __init__(self, files: Files, directory: str) -> None:
        found = list_segments(files, directory)
        identity = find_identity(files, directory, found)
        self._damage = DamageCounter()
        segments = [] if identity is None else [_view(files, each, identity, self._damage) for each in found]
        kept = [segment for segment in segments if segment is not None]
        self.next = max([0 if identity is None else identity.floor, *(each.end for each in kept)])
        self._segments = SegmentList(files, kept, self.next)
        salt = 0 if identity is None else identity.salt
        self._reader = SegmentReader(files, salt, self._segments, self._damage)

    @property
    def first(self) -> int:
        """The lowest offset a message may have."""
        oldest = self._segments.oldest
        return self.next if oldest is None else oldest

    def read(self, offset: int) -> Span | None:
        """The span with the first message at or after `offset`, None when there is none."""
        return self._reader.read(max(offset, self.first)) if offset < self.next else None

    def start_at(self, timestamp_ns: int) -> int:
        """Below this offset no message is of `timestamp_ns` or later."""
        for segment in self._segments.all:
            if len(segment.index) and segment.index.newest_ns >= timestamp_ns:
                return segment.base
        return self.next

    def take_damage(self) -> list[Damage]:
        """What reading found damaged since this was last called."""
        return self._damage.take()

    def close(self) -> None:
        self._reader.close()


def _view(files: Files, segment: SegmentFile, identity: Identity, damage: DamageCounter) -> Segment | None:
    header = segment.header
    if segment.size < SEGMENT_HEADER_BYTES or (header is not None and header.uuid != identity.uuid):
        return None
    epoch = identity.epoch if header is None else header.epoch
    loaded = load_index(files, segment)
    if loaded is not None and loaded[1] == segment.size:
        return Segment(segment.path, loaded[0], epoch=epoch, size=segment.size)
    scan = scan_file(files, segment, identity.salt)
    for bad in scan.bad:
        damage.add(Damage(segment.path, bad.position, bad.end - bad.position, bad.reason, bad.messages))
    return Segment(segment.path, scan.index, epoch=epoch, size=scan.size)
