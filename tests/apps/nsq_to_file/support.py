"""An archive in a folder of its own, with a clock and a disk that the test moves."""

import gzip
import os
import zlib
from pathlib import Path
from typing import Any

from nsqlake.apps.nsq_to_file.files.archive import Archive
from nsqlake.apps.nsq_to_file.files.disk import OS_DISK
from nsqlake.apps.nsq_to_file.files.file_names import Host
from nsqlake.apps.nsq_to_file.files.layout import Layout, layout_of
from nsqlake.apps.nsq_to_file.options import NsqToFileOptions
from nsqlake.testing.clock import ManualClock
from tests.fakes.faulty_files import FaultyFiles

HOST = Host("host", 1)
FIXED_NAME = "log<REV>"

_GZIP = 31  # zlib: gzip with the largest window


class ArchiveFixture:
    def __init__(self, folder: Path, **options: Any) -> None:
        self.output = folder / "output"
        self.clock = ManualClock()
        self.disk = FaultyFiles(OS_DISK)
        options.setdefault("output_dir", str(self.output))
        options.setdefault("filename_format", FIXED_NAME)
        self.layout: Layout = layout_of(NsqToFileOptions(**options), "orders", HOST)
        self.archive = self.new_archive()

    def new_archive(self) -> Archive:
        """As another process would open it."""
        return Archive(self.layout, label="orders/nsq_to_file", clock=self.clock, disk=self.disk)  # type: ignore[arg-type]


def contents(folder: Path) -> dict[str, bytes]:
    """Every file below, by its relative name; those of gzip as a reader sees them."""
    found = {}
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        data = path.read_bytes()
        found[os.fspath(path.relative_to(folder))] = gzip.decompress(data) if path.suffix == ".gz" else data
    return found


def whole_members(data: bytes) -> bytes:
    """What a reader of gzip gets before an unfinished end."""
    found = b""
    while data:
        member = zlib.decompressobj(_GZIP)
        try:
            part = member.decompress(data)
        except zlib.error:
            break
        if not member.eof:
            break
        found, data = found + part, member.unused_data
    return found
