"""A topic on disk without the event loop: what the daemon does around the core, in the same order."""

import os
from collections.abc import Iterable
from typing import NamedTuple

from nsqlake.nsqd.core.channel import Channel, ChannelLimits
from nsqlake.nsqd.data_store import DataStore
from nsqlake.nsqd.journal_file import JournalFile
from nsqlake.nsqd.topic_loader import LoadedTopic, TopicLoader
from nsqlake.nsqd.topic_store import ChannelState, describe
from nsqlake.topiclog import LogOptions
from nsqlake.topiclog.files import Files, OsFiles
from nsqlake.wire.frame_reader import FrameReader
from tests.topiclog.support import crash, segment_paths

SECOND_NS = 1_000_000_000
ID_BASE = 5 << 54
TOPIC = "orders"
MAX_MSG_TIMEOUT_NS = 25 * SECOND_NS
# Close below a border of id pages, so that runs cross it.
START_NS = ((1_700_000_000_000_000 | 0xFFF) - 20) * 1000


class QuickFiles(OsFiles):
    """Syncing is for the crash of a machine, and costs most of the time here."""

    def fdatasync(self, fd: int) -> None:  # type: ignore[override]
        assert fd >= 0

    def fsync(self, fd: int) -> None:  # type: ignore[override]
        assert fd >= 0

    def sync_dir(self, path: str) -> None:
        assert os.path.isdir(path)


class Delivered(NamedTuple):
    """A message frame as the consumer sees it."""

    offset: int
    attempts: int
    timestamp_ns: int
    body: bytes


def id_of(offset: int) -> bytes:
    return b"%016x" % (ID_BASE + offset)


def fin_lines(offsets: Iterable[int]) -> bytes:
    return b"".join([b"FIN %b\n" % id_of(offset) for offset in offsets])


def parse(frames: Iterable[bytes | memoryview]) -> list[Delivered]:
    return [_delivered(frame.payload) for frame in FrameReader().feed(b"".join(frames))]


def _delivered(payload: bytes) -> Delivered:
    number = int(payload[10:26], 16)
    assert payload[10:26] == b"%016x" % number
    attempts, stamp = int.from_bytes(payload[8:10], "big"), int.from_bytes(payload[:8], "big")
    return Delivered(number - ID_BASE, attempts, stamp, payload[26:])


class DiskTopic:
    """One topic in a data path, opened, stopped and killed as often as a test likes."""

    def __init__(self, path: str, *, log_options: LogOptions, files: Files | None = None) -> None:
        self.path = path
        self.files = files or QuickFiles()
        self.log_options = log_options
        self.loaded: LoadedTopic
        self._salts = 0

    def _loader(self) -> tuple[TopicLoader, bool, list[str]]:
        self.data = DataStore(self.files, self.path)
        clean, names = self.data.open()
        self.data.mark(clean=False)
        limits = ChannelLimits(max_msg_timeout_ns=MAX_MSG_TIMEOUT_NS, ephemeral_depth=3)
        loader = TopicLoader(self.data, self.log_options, id_base=ID_BASE, limits=limits, random=lambda: 0.5)
        return loader, clean, names

    def open(self, now_ns: int) -> None:
        loader, clean, names = self._loader()
        if TOPIC in names:
            self.loaded = loader.load(TOPIC, now_ns, clean=clean)
        else:
            self.loaded = loader.create(TOPIC, now_ns)
        self.core, self.log = self.loaded.core, self.loaded.log

    def stop(self) -> None:
        """A clean stop."""
        for name in self.loaded.channels:
            self.write_journal(name, force=True)
            self.journal(name).close()
        self.log.close()
        self.data.high_water = max(self.data.high_water, self.log.next)
        self.data.mark(clean=True)

    def kill(self) -> None:
        """Nothing more is written; only descriptors are given back."""
        for _, journal in self.loaded.channels.values():
            journal.close()
        crash(self.log)

    # Channels

    def journal(self, name: str) -> JournalFile:
        return self.loaded.channels[name][1]

    def add_channel(self, name: str, now_ns: int) -> Channel:
        channel = self.core.add_channel(name, now_ns)
        self._salts += 1
        state = ChannelState(name, self._salts, channel.ledger.cursor)
        store = self.loaded.store
        journal = JournalFile(store.files, store.channels_path, name, salt=state.salt, old=[])
        assert journal.write_snapshot(channel.ledger)
        self.loaded.channels[name] = (state, journal)
        self.save_state()
        return channel

    def remove_channel(self, name: str) -> None:
        self.core.remove_channel(name)
        journal = self.loaded.channels.pop(name)[1]
        self.save_state()
        journal.delete()

    def save_state(self) -> None:
        states = {name: state for name, (state, _) in self.loaded.channels.items()}
        self.loaded.store.write_state(describe(self.core, states))

    def write_journal(self, name: str, *, force: bool = False) -> bool:
        """Whether anything was written."""
        ledger = self.core.channels[name].ledger
        if not ledger.pending and not force:
            return False
        assert self.journal(name).write(ledger)
        return True

    def sync_journal(self, name: str) -> None:
        job = self.journal(name).begin_sync()
        if job is not None:
            job.run()
            self.journal(name).end_sync(job, None)

    # Damage

    def journal_paths(self, name: str) -> list[str]:
        directory = self.loaded.store.channels_path
        found = [entry for entry in os.listdir(directory) if entry.startswith(f"{name}.")]
        return sorted(os.path.join(directory, entry) for entry in found)

    def log_tail(self) -> str | None:
        paths = segment_paths(self.loaded.store.log_path)
        return paths[-1] if paths else None
