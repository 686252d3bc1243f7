"""Checking every block of a log without changing it, and saying what is amiss and where."""

import itertools
import os
from dataclasses import dataclass, field

from nsqlake.topiclog.atomic_file import damaged_generations
from nsqlake.topiclog.files import Files, read_all
from nsqlake.topiclog.gaps import Gaps
from nsqlake.topiclog.identity import IDENTITY_NAME, Identity
from nsqlake.topiclog.index import BlockIndex
from nsqlake.topiclog.log_view import SegmentFile, find_identity, list_segments, load_index, scan_file
from nsqlake.topiclog.scan import BadStretch, Scan
from nsqlake.topiclog.segment import (
    EPOCH_JUMP,
    INDEX_SUFFIX,
    SEGMENT_HEADER_BYTES,
    Segment,
    SegmentHeader,
    index_path,
)

__all__ = ["Finding", "LogInspection", "OffsetGap", "inspect_log"]


@dataclass(frozen=True, slots=True)
class Finding:
    """Something amiss; not `is_damage` when nsqd puts it right by itself and loses no message by it."""

    path: str
    reason: str
    is_damage: bool = True
    position: int | None = None
    bytes: int = 0
    messages: int = 0  # lost, as far as the offsets around it tell


@dataclass(frozen=True, slots=True)
class OffsetGap:
    """Offsets [start, end) that no message has."""

    start: int
    end: int
    reason: str


@dataclass(slots=True)
class LogInspection:
    """What a log holds, and what is wrong with it."""

    segments: int = 0
    blocks: int = 0
    messages: int = 0
    bytes: int = 0
    first: int = 0
    next: int = 0
    gaps: list[OffsetGap] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)


def inspect_log(files: Files, directory: str, *, is_settled: bool) -> LogInspection:
    """Check all of a log's files.

    `is_settled` after a clean stop: then nothing may be half written. Otherwise a torn end of the last
    segment is what a crash leaves of a block that was never acknowledged.
    """
    return _Inspector(files, directory, is_settled=is_settled).inspect()


class _Inspector:
    def __init__(self, files: Files, directory: str, *, is_settled: bool) -> None:
        self._files, self._directory, self._is_settled = files, directory, is_settled
        self._found = LogInspection()
        self._missing = Gaps()

    def inspect(self) -> LogInspection:
        found = self._found
        entries = list_segments(self._files, self._directory)
        for path in damaged_generations(self._files, os.path.join(self._directory, IDENTITY_NAME)):
            found.findings.append(Finding(path, "damaged; the other generation is used"))
        identity = find_identity(self._files, self._directory, entries)
        if identity is None:
            if entries:
                found.findings.append(Finding(self._directory, "nothing tells whose segments these are"))
            return found
        segments = []
        for entry, successor in itertools.zip_longest(entries, entries[1:]):
            segment = self._inspect_segment(entry, successor, identity)
            if segment is not None:
                segments.append(segment)
        self._look_for_lost_segments({index_path(entry.path) for entry in entries})
        self._sum_up(segments, identity)
        return found

    def _inspect_segment(
        self, entry: SegmentFile, successor: SegmentFile | None, identity: Identity
    ) -> Segment | None:
        if entry.size < SEGMENT_HEADER_BYTES:
            self._note_emptied(entry, successor)
            return None
        header = entry.header
        if header is None:
            self._add(entry, "segment header damaged; no message is lost by it", position=0)
        elif header.uuid != identity.uuid:
            self._add(entry, "a segment of another log")
            return None
        epoch = identity.epoch if header is None else header.epoch
        scan = scan_file(self._files, entry, identity.salt)
        self._found.bytes += entry.size
        if scan.is_unreadable:
            self._add(entry, "some of it cannot be read from the disk")
        for stretch in scan.bad:
            self._add_stretch(entry, stretch, stretch.messages)
        segment = Segment(entry.path, scan.index, epoch=epoch, size=scan.size)
        self._inspect_end(entry, scan, successor, segment)
        return segment

    def _inspect_end(
        self, entry: SegmentFile, scan: Scan, successor: SegmentFile | None, segment: Segment
    ) -> None:
        """Bad bytes at the end, and blocks that were cut off with them or without a trace."""
        loaded = load_index(self._files, entry)
        if loaded is None and self._files.exists(index_path(entry.path)):
            path = index_path(entry.path)
            self._found.findings.append(Finding(path, "index damaged; nsqd rebuilds it", is_damage=False))
        filled_to = 0 if loaded is None else loaded[0].last_end
        if scan.tail is not None and successor is not None and successor.header is not None:
            filled_to = max(filled_to, _end_before(successor.header, segment))
        lost = max(filled_to - scan.index.end, 0)
        if lost:
            scan.index.end = filled_to
            self._found.gaps.append(OffsetGap(filled_to - lost, filled_to, "damaged"))
        if scan.tail is not None and not lost and successor is None and not self._is_settled:
            reason = "torn end, as a kill leaves it: never acknowledged, unless the file was cut"
            self._add(entry, reason, position=scan.tail.position, is_damage=False)
        elif scan.tail is not None:
            self._add_stretch(entry, scan.tail, lost or scan.tail.messages)
        elif lost:
            self._add(entry, "cut short", position=entry.size, messages=lost)

    def _note_emptied(self, entry: SegmentFile, successor: SegmentFile | None) -> None:
        loaded = load_index(self._files, entry)
        if loaded is not None:
            self._missing.add(entry.base, loaded[0].last_end)
        elif successor is not None:
            self._missing.add(entry.base, entry.base + (successor.base - entry.base) % EPOCH_JUMP)
        is_damage = loaded is not None or successor is not None or self._is_settled
        reason = "cut to less than a header" if is_damage else "was being made when nsqd was stopped"
        self._add(entry, reason, position=0, is_damage=is_damage)

    def _look_for_lost_segments(self, known: set[str]) -> None:
        """An index without its segment: retirement removes the index first."""
        for name in self._files.listdir(self._directory):
            path = os.path.join(self._directory, name)
            if not name.endswith(INDEX_SUFFIX) or path in known:
                continue
            loaded = BlockIndex.decode(read_all(self._files, path))
            if loaded is not None:
                self._missing.add(loaded[0].base, loaded[0].last_end)

    def _sum_up(self, segments: list[Segment], identity: Identity) -> None:
        found = self._found
        for segment in segments:
            found.segments += 1
            found.blocks += len(segment.index)
            found.messages += sum(segment.index.counts)
            found.gaps += [OffsetGap(*hole, "damaged") for hole in _inner_holes(segment.index)]
        for segment, successor in itertools.pairwise(segments):
            self._look_between(segment, successor)
        for start, end in self._missing.ranges():
            found.gaps.append(OffsetGap(start, end, "missing"))
            found.findings.append(Finding(self._directory, "segment missing", messages=end - start))
        found.gaps.sort(key=lambda gap: gap.start)
        found.next = max([identity.floor, *(segment.end for segment in segments)])
        found.first = segments[0].base if segments else found.next

    def _look_between(self, segment: Segment, successor: Segment) -> None:
        vanished = segment.vanished_before(successor)
        start = segment.end
        if vanished and not segment.is_empty:
            self._missing.add(start, start + vanished)
            start += vanished
        if start < successor.base:
            reason = "retired" if vanished and segment.is_empty else "new epoch after an unclean stop"
            self._found.gaps.append(OffsetGap(start, successor.base, reason))

    def _add(
        self,
        entry: SegmentFile,
        reason: str,
        *,
        position: int | None = None,
        messages: int = 0,
        is_damage: bool = True,
    ) -> None:
        finding = Finding(entry.path, reason, position=position, messages=messages, is_damage=is_damage)
        self._found.findings.append(finding)

    def _add_stretch(self, entry: SegmentFile, stretch: BadStretch, messages: int) -> None:
        nbytes = stretch.end - stretch.position
        finding = Finding(
            entry.path, stretch.reason, position=stretch.position, bytes=nbytes, messages=messages
        )
        self._found.findings.append(finding)


def _end_before(successor: SegmentHeader, segment: Segment) -> int:
    """Up to which offset the segment was written, told by the one that followed."""
    return successor.base - EPOCH_JUMP * max(successor.epoch - segment.epoch, 0)


def _inner_holes(index: BlockIndex) -> list[tuple[int, int]]:
    """Holes between blocks; what was lost behind the last one is noted where it is found."""
    return [hole for hole in index.holes() if hole[0] < index.last_end]
