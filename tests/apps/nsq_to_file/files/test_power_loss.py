"""Whatever is finished is in a file, wherever the power fails."""

from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

from nsqlake.apps.nsq_to_file.files.archive import Archive
from nsqlake.apps.nsq_to_file.files.file_names import Host
from nsqlake.apps.nsq_to_file.files.layout import layout_of
from nsqlake.apps.nsq_to_file.options import NsqToFileOptions
from nsqlake.testing.clock import ManualClock
from tests.apps.nsq_to_file.support import whole_members
from tests.fakes.power_loss import Disk, Order
from tests.fakes.sim_files import ROOT, Image, SimFiles

STATES_PER_MOMENT = 40


class Machine:
    """Archives on a simulated disk and remembers what was finished when."""

    def __init__(self, **options: Any) -> None:
        self.files = SimFiles()
        self.finished: list[tuple[int, bytes]] = []  # how much had happened on the disk, line
        every = NsqToFileOptions(output_dir="/out/a", filename_format="b/log<REV>", **options)
        self._is_gzip = every.gzip
        layout = layout_of(every, "orders", Host("host", 1))
        self.archive = Archive(layout, label="orders/x", clock=ManualClock(), disk=self.files)
        self._kept: list[bytes] = []

    def append(self, *bodies: bytes) -> None:
        if self.archive.append(bodies):
            self.archive.sync()
            self._kept += bodies
            self.finish()
        else:
            self._kept += bodies

    def sync(self) -> None:
        self.archive.sync()
        self.finish()

    def finish(self) -> None:
        self.finished += [(self.files.now, body) for body in self._kept]
        self._kept.clear()

    def moments(self, order: Order, random: Random) -> Iterator[tuple[set[bytes], Image]]:
        """What is finished, and what the disk may hold, for every moment at which the power can fail."""
        disk = Disk(Image())
        for now, op in enumerate(self.files.trace, 1):
            disk.step(op)
            finished = {body for when, body in self.finished if when <= now}
            for image in disk.states(order, random, STATES_PER_MOMENT):
                yield finished, image

    def lines(self, image: Image) -> set[bytes]:
        """All whole lines of all files."""
        found: set[bytes] = set()
        waiting = [ROOT]
        while waiting:
            for node in image.directories[waiting.pop()].values():
                if node in image.directories:
                    waiting.append(node)
                else:
                    data = image.files[node]
                    found.update((whole_members(data) if self._is_gzip else data).split(b"\n")[:-1])
        return found


@pytest.mark.parametrize("order", list(Order))
@pytest.mark.parametrize(
    "options",
    [{}, {"gzip": True}, {"work_dir": "/work"}, {"work_dir": "/work", "gzip": True, "rotate_size_bytes": 4}],
    ids=["plain", "gzip", "work dir", "gzip, work dir and size"],
)
def test_what_is_finished_survives(options: dict[str, Any], order: Order) -> None:
    machine = Machine(**options)
    machine.append(b"one", b"two")
    machine.append(b"three")
    machine.sync()
    machine.append(b"four")
    machine.archive.close()
    machine.finish()
    machine.append(b"five")
    machine.sync()
    machine.archive.close()

    seen = 0
    for finished, image in machine.moments(order, Random(1)):
        assert finished <= machine.lines(image)
        seen += bool(finished)

    assert seen > 10
    assert {body for _, body in machine.finished} == {b"one", b"two", b"three", b"four", b"five"}
