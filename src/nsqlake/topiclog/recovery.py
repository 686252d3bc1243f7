"""Opening a log's directory: every segment with its index, loaded or rebuilt, and what was found amiss."""

import contextlib
import itertools
import os
from dataclasses import dataclass, field

from nsqlake.topiclog.atomic_file import remove_stale_temps
from nsqlake.topiclog.damage import Damage, set_aside
from nsqlake.topiclog.files import Files, read_all
from nsqlake.topiclog.gaps import Gaps
from nsqlake.topiclog.identity import IDENTITY_NAME, Identity, read_identity
from nsqlake.topiclog.index import BlockIndex
from nsqlake.topiclog.scan import BadStretch, Scan, scan_segment
from nsqlake.topiclog.segment import (
    EPOCH_JUMP,
    INDEX_SUFFIX,
    SEGMENT_HEADER_BYTES,
    Segment,
    SegmentHeader,
    index_path,
    parse_segment_name,
    segment_name,
)

__all__ = ["Recovered", "RecoveryReport", "recover"]
_COPY_BYTES = 1024 * 1024


@dataclass(slots=True)
class RecoveryReport:
    """What opening found and did; all zero and empty after a clean stop."""

    is_new: bool = False
    is_unclean: bool = False  # a new epoch begins
    torn_blocks: int = 0
    torn_bytes: int = 0
    torn_messages: int = 0  # what the torn blocks say they held; never acknowledged, unless the file was cut
    damage: list[Damage] = field(default_factory=list)
    missing: list[tuple[int, int]] = field(default_factory=list)  # offset ranges of vanished segments
    is_replaced: bool = False  # the whole log was gone, and a new one begins
    rebuilt_indexes: int = 0
    damaged_headers: int = 0
    rebuilt_identity: bool = False
    set_aside: list[str] = field(default_factory=list)  # files that are not this log's, renamed

    @property
    def lost_messages(self) -> int:
        """Messages that were in the log and cannot be delivered any more, as far as offsets tell."""
        return sum(damage.messages for damage in self.damage) + sum(b - a for a, b in self.missing)

    @property
    def is_spotless(self) -> bool:
        """Nothing was lost, cut or set aside."""
        return not (
            self.torn_blocks
            or self.damage
            or self.missing
            or self.is_replaced
            or self.damaged_headers
            or self.rebuilt_identity
            or self.set_aside
        )

    def note_missing(self, start: int, end: int) -> None:
        """Add a range of `missing`; several signs may tell of the same one."""
        gaps = Gaps()
        for range_ in (*self.missing, (start, end)):
            gaps.add(*range_)
        self.missing = gaps.ranges()

    def include(self, earlier: "RecoveryReport") -> None:
        """Add what an earlier opening of the same log found and put right."""
        for name in ("torn_blocks", "torn_bytes", "torn_messages", "rebuilt_indexes", "damaged_headers"):
            setattr(self, name, getattr(self, name) + getattr(earlier, name))
        self.damage = [*earlier.damage, *(found for found in self.damage if found not in earlier.damage)]
        self.set_aside = [*earlier.set_aside, *self.set_aside]
        self.rebuilt_identity = self.rebuilt_identity or earlier.rebuilt_identity
        self.is_replaced = self.is_replaced or earlier.is_replaced
        for start, end in earlier.missing:
            self.note_missing(start, end)


@dataclass(slots=True)
class Recovered:
    """What is left of a log."""

    identity: Identity | None
    segments: list[Segment]
    next: int  # no message at or above it was found
    unsynced: list[Segment]  # scanned: perhaps only in the page cache so far
    ends_whole: bool  # the last segment, if any, is as a clean stop left it
    report: RecoveryReport


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A file that is named like a segment."""

    path: str
    base: int
    size: int
    header: SegmentHeader | None


def recover(files: Files, directory: str, *, clean: bool) -> Recovered:
    """Read what `directory` holds; afterwards every segment ends with a whole block."""
    remove_stale_temps(files, directory)
    report = RecoveryReport()
    everything = _candidates(files, directory)
    identity = _identity(files, directory, everything, report)
    next_ = max([identity.floor if identity else 0, *(candidate.base for candidate in everything)])
    for candidate, successor in itertools.zip_longest(everything, everything[1:]):
        _report_emptied(files, candidate, successor, report)
    candidates = [candidate for candidate in everything if _is_ours(files, candidate, identity, report)]
    found = Recovered(identity, [], next_, [], not everything, report)
    for candidate, successor in itertools.zip_longest(candidates, candidates[1:]):
        trust_index = successor is not None or (clean and candidate is everything[-1])
        _recover_one(files, candidate, successor, found, trust_index=trust_index)
    _report_missing(found)
    _remove_orphan_indexes(files, directory, found)
    return found


def _candidates(files: Files, directory: str) -> list[_Candidate]:
    bases = sorted(
        base for name in files.listdir(directory) if (base := parse_segment_name(name)) is not None
    )
    return [_candidate(files, os.path.join(directory, segment_name(base)), base) for base in bases]


def _candidate(files: Files, path: str, base: int) -> _Candidate:
    fd = files.open(path, os.O_RDONLY)
    try:
        head = b""
        with contextlib.suppress(OSError):
            head = files.pread(fd, SEGMENT_HEADER_BYTES, 0)
        return _Candidate(path, base, files.size(fd), SegmentHeader.decode(head))
    finally:
        files.close(fd)


def _identity(
    files: Files, directory: str, candidates: list[_Candidate], report: RecoveryReport
) -> Identity | None:
    """The identity file's, raised to what the segments tell; theirs when the file is gone."""
    headers = [candidate.header for candidate in candidates if candidate.header is not None]
    kept = read_identity(files, directory)
    if kept is None:
        report.rebuilt_identity = bool(candidates)
        if not headers:
            _require_readable(files, directory, candidates)
            return None
        kept = Identity(headers[-1].uuid, headers[-1].salt, headers[-1].epoch, 0)
    epochs = [header.epoch for header in headers if header.uuid == kept.uuid]
    return Identity(kept.uuid, kept.salt, max([kept.epoch, *epochs]), kept.floor)


def _require_readable(files: Files, directory: str, candidates: list[_Candidate]) -> None:
    """Raise `OSError` when it is the disk that hides whose files these are: then they must stay."""
    for name in files.listdir(directory):
        if name.startswith(f"{IDENTITY_NAME}."):
            read_all(files, os.path.join(directory, name))
    for candidate in candidates:
        fd = files.open(candidate.path, os.O_RDONLY)
        try:
            files.pread(fd, SEGMENT_HEADER_BYTES, 0)
        finally:
            files.close(fd)


def _is_ours(files: Files, candidate: _Candidate, identity: Identity | None, report: RecoveryReport) -> bool:
    """Whether the file can hold blocks of this log; otherwise it leaves the log here."""
    if candidate.size < SEGMENT_HEADER_BYTES:
        # The stop came while the file was being made: no block can be in it.
        files.unlink(candidate.path)
        report.torn_bytes += candidate.size
        return False
    header = candidate.header
    if identity is None or (header is not None and header.uuid != identity.uuid):
        files.rename(candidate.path, candidate.path + ".bad")
        report.set_aside.append(candidate.path + ".bad")
        return False
    return True


def _recover_one(
    files: Files, candidate: _Candidate, successor: _Candidate | None, found: Recovered, *, trust_index: bool
) -> None:
    if candidate.header is None:
        found.report.damaged_headers += 1
    loaded = _load_index(files, candidate)
    if loaded is not None and loaded[1] == candidate.size and trust_index:
        segment = Segment(candidate.path, loaded[0], epoch=_epoch(candidate, found), size=candidate.size)
        found.ends_whole = True
    else:
        index = loaded[0] if loaded else None
        segment = _rebuild(files, candidate, successor, found, index)
    found.segments.append(segment)
    found.next = max(found.next, segment.end)


def _epoch(candidate: _Candidate, found: Recovered) -> int:
    if candidate.header is not None:
        return candidate.header.epoch
    assert found.identity is not None
    return found.segments[-1].epoch if found.segments else found.identity.epoch


def _load_index(files: Files, candidate: _Candidate) -> tuple[BlockIndex, int] | None:
    loaded = _read_index(files, index_path(candidate.path))
    return loaded if loaded is not None and loaded[0].base == candidate.base else None


def _read_index(files: Files, path: str) -> tuple[BlockIndex, int] | None:
    try:
        return BlockIndex.decode(read_all(files, path))
    except OSError:
        return None


def _rebuild(
    files: Files,
    candidate: _Candidate,
    successor: _Candidate | None,
    found: Recovered,
    old: BlockIndex | None,
) -> Segment:
    """Scan the segment; keep bad bytes aside, and cut them off where nothing good follows."""
    assert found.identity is not None
    epoch = _epoch(candidate, found)
    fd = files.open(candidate.path, os.O_RDWR)
    try:
        scan = scan_segment(files, fd, candidate.size, salt=found.identity.salt, base=candidate.base)
        for stretch in scan.bad:
            _keep_aside(files, fd, candidate.path, "bad", stretch)
            found.report.damage.append(_damage(candidate.path, stretch, stretch.messages))
        filled_to = _filled_to(scan, epoch, successor, found.identity)
        if old is not None:
            # What the old index already knew as lost behind its last block was reported then.
            filled_to = old.last_end if old.end >= filled_to else filled_to
        lost = max(filled_to - scan.index.end, 0)
        is_cut = _handle_tail(files, fd, candidate.path, scan, found.report, lost, is_torn=successor is None)
    finally:
        files.close(fd)
    found.report.rebuilt_indexes += 1
    found.ends_whole = False
    scan.index.end = max(scan.index.end, filled_to, 0 if old is None else old.end)
    segment = Segment(candidate.path, scan.index, epoch=epoch, size=scan.size)
    segment.is_unreadable = scan.is_unreadable
    if is_cut and not scan.is_unreadable:
        # After its sync the index is written, and believed: it must not lack what may be readable again.
        found.unsynced.append(segment)
    return segment


def _filled_to(scan: Scan, epoch: int, successor: _Candidate | None, identity: Identity) -> int:
    """Up to which offset the segment was written, told by what began after it; 0 when nothing tells."""
    if successor is None:
        # The floor was set when its epoch began, behind everything that was there before.
        return identity.floor - EPOCH_JUMP * (identity.epoch - epoch) if identity.epoch > epoch else 0
    if scan.tail is None or successor.header is None:
        return 0
    return successor.base - EPOCH_JUMP * max(successor.header.epoch - epoch, 0)


def _handle_tail(
    files: Files, fd: int, path: str, scan: Scan, report: RecoveryReport, lost: int, *, is_torn: bool
) -> bool:
    """Report what is missing at the end; False when bad bytes had to stay there."""
    tail = scan.tail or BadStretch(scan.size, scan.size, "cut short", 0)
    if scan.tail is None and not lost:
        return True
    if is_torn:
        report.torn_blocks += 1
        report.torn_bytes += tail.end - tail.position
        report.torn_messages += lost or tail.messages
    else:
        report.damage.append(_damage(path, tail, lost))
    kept = _keep_aside(files, fd, path, "torn" if is_torn else "bad", tail)
    if not kept or scan.is_unreadable:
        return False
    with contextlib.suppress(OSError):
        files.ftruncate(fd, scan.size)
        return True
    return False


def _damage(path: str, stretch: BadStretch, messages: int) -> Damage:
    return Damage(path, stretch.position, stretch.end - stretch.position, stretch.reason, messages)


def _keep_aside(files: Files, fd: int, path: str, kind: str, stretch: BadStretch) -> bool:
    if stretch.position == stretch.end:
        return True
    pieces = (
        files.pread(fd, min(_COPY_BYTES, stretch.end - position), position)
        for position in range(stretch.position, stretch.end, _COPY_BYTES)
    )
    return set_aside(files, path, kind, stretch.position, pieces)


def _report_missing(found: Recovered) -> None:
    """Offsets between two segments that neither a new epoch nor retirement explains."""
    for segment, successor in itertools.pairwise(found.segments):
        vanished = segment.vanished_before(successor)
        # A segment without blocks is what retirement leaves in the middle of a log.
        if vanished and not segment.is_empty:
            found.report.note_missing(segment.end, segment.end + vanished)


def _report_emptied(
    files: Files, candidate: _Candidate, successor: _Candidate | None, report: RecoveryReport
) -> None:
    """A file too short for a header is of a stop while it was made, unless anything tells of its blocks."""
    if candidate.size >= SEGMENT_HEADER_BYTES:
        return
    loaded = _load_index(files, candidate)
    if loaded is not None:
        report.note_missing(candidate.base, loaded[0].last_end)
    elif successor is not None:
        # How many epochs lie between is not known. Each adds the same jump, far more than a segment holds.
        report.note_missing(candidate.base, candidate.base + (successor.base - candidate.base) % EPOCH_JUMP)


def _remove_orphan_indexes(files: Files, directory: str, found: Recovered) -> None:
    """An index without its segment tells what is missing: retirement removes the index first."""
    wanted = {index_path(segment.path) for segment in found.segments}
    foreign = {index_path(path.removesuffix(".bad")) for path in found.report.set_aside}
    for name in files.listdir(directory):
        path = os.path.join(directory, name)
        if not name.endswith(INDEX_SUFFIX) or path in wanted:
            continue
        loaded = None if path in foreign else _read_index(files, path)
        if loaded is not None:
            found.report.note_missing(loaded[0].base, loaded[0].last_end)
            _raise_end(found, loaded[0])
        files.unlink(path)


def _raise_end(found: Recovered, lost: BlockIndex) -> None:
    """No offset of a lost segment is given out again; behind the last segment it is known as lost now."""
    found.next = max(found.next, lost.end)
    last = found.segments[-1].index if found.segments else None
    if last is not None and last.base < lost.base:
        last.end = max(last.end, lost.end)
