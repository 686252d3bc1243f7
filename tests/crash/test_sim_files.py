"""The simulated disk: it behaves like a real one while there is power, and loses what it may without."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from nsqlake.topiclog.files import OS_FILES, Files, read_all, write_all
from tests.fakes.power_loss import SECTOR_BYTES, Disk, Order
from tests.fakes.sim_files import Image, SimFiles

ORDER = pytest.mark.parametrize("order", Order, ids=lambda order: order.name.lower())
CREATE = os.O_WRONLY | os.O_CREAT


def states(files: SimFiles, order: Order = Order.ANY_ORDER, limit: int = 500) -> list[SimFiles]:
    """What may be left if power is lost now."""
    disk = Disk(files.image)
    for op in files.trace:
        disk.step(op)
    return [SimFiles(image) for image in disk.states(order, Random(1), limit)]


def write_file(files: SimFiles, path: str, data: bytes, *, sync: bool = False) -> int:
    fd = files.open(path, CREATE)
    write_all(files, fd, data)
    if sync:
        files.fdatasync(fd)
    return fd


def contents(files: list[SimFiles], path: str) -> set[bytes | None]:
    return {read_all(each, path) if each.exists(path) else None for each in files}


def put(files: Files, path: str, flags: int, data: bytes, *, length: int | None = None) -> int:
    """Write to a file, cut it to `length`, and return its size."""
    fd = files.open(path, flags)
    write_all(files, fd, data)
    if length is not None:
        files.ftruncate(fd, length)
    size = files.size(fd)
    files.close(fd)
    return size


def outcome(call: Callable[[], object]) -> object:
    try:
        return call()
    except OSError as error:
        return error.errno


def test_it_answers_as_the_real_file_system_does(tmp_path: Path) -> None:
    def play(files: Files, root: str) -> list[object]:
        path = os.path.join(root, "a")
        return [
            outcome(lambda: files.open(path, os.O_RDONLY)),
            outcome(lambda: files.mkdir(path)),
            outcome(lambda: files.mkdir(path)),
            outcome(lambda: files.open(path, os.O_WRONLY)),
            outcome(lambda: files.unlink(path)),
            outcome(lambda: put(files, f"{path}/b", CREATE | os.O_EXCL, b"12345")),
            outcome(lambda: files.open(f"{path}/b", CREATE | os.O_EXCL)),
            outcome(lambda: files.rmdir(path)),
            outcome(lambda: put(files, f"{path}/b", os.O_RDWR | os.O_APPEND, b"67", length=6)),
            outcome(lambda: files.rename(f"{path}/b", f"{path}/c")),
            outcome(lambda: files.rename(f"{path}/b", f"{path}/c")),
            outcome(lambda: read_all(files, f"{path}/c")),
            outcome(lambda: files.listdir(path)),
            outcome(lambda: files.listdir(f"{path}/c")),
            outcome(lambda: put(files, f"{path}/c", CREATE | os.O_TRUNC, b"")),
            outcome(lambda: read_all(files, f"{path}/c")),
            outcome(lambda: files.unlink(f"{path}/c")),
            outcome(lambda: files.rmdir(path)),
            outcome(lambda: files.sync_dir(path)),
            files.exists(path),
        ]

    assert play(SimFiles(), "/") == play(OS_FILES, str(tmp_path))


@ORDER
def test_what_was_synced_is_always_there(order: Order) -> None:
    files = SimFiles()
    write_file(files, "/a", b"x" * 2000, sync=True)
    files.sync_dir("/")

    assert contents(states(files, order), "/a") == {b"x" * 2000}


def test_a_write_that_was_not_synced_is_there_missing_torn_or_zeros() -> None:
    files = SimFiles()
    fd = write_file(files, "/a", b"old", sync=True)
    files.sync_dir("/")
    new = b"n" * (2 * SECTOR_BYTES)
    write_all(files, fd, new)

    found = contents(states(files), "/a")

    assert {b"old", b"old" + new, b"old" + bytes(len(new))} <= found
    assert b"old" + new[: SECTOR_BYTES - 3] + bytes(SECTOR_BYTES + 3) in found
    assert b"old" + bytes(SECTOR_BYTES - 3) + new[SECTOR_BYTES - 3 :] in found


def test_a_file_whose_name_was_not_synced_may_be_gone_with_all_its_data() -> None:
    files = SimFiles()
    write_file(files, "/a", b"x", sync=True)

    assert contents(states(files), "/a") == {None, b"x"}


@pytest.mark.parametrize(("order", "is_possible"), [(Order.PER_DIRECTORY, False), (Order.ANY_ORDER, True)])
def test_a_later_name_without_an_earlier_one_is_left_only_without_order(
    order: Order, is_possible: bool
) -> None:
    files = SimFiles()
    files.mkdir("/first")
    files.mkdir("/second")

    left = states(files, order)

    assert any(each.exists("/second") and not each.exists("/first") for each in left) is is_possible


@pytest.mark.parametrize(("order", "is_possible"), [(Order.JOURNAL, False), (Order.PER_DIRECTORY, True)])
def test_a_journal_orders_the_names_of_all_directories(order: Order, is_possible: bool) -> None:
    files = SimFiles(Image({}, {0: {"a": 1, "b": 2}, 1: {}, 2: {}}))
    files.mkdir("/a/first")
    files.mkdir("/b/second")
    files.sync_dir("/b")

    left = states(files, order)

    assert all(each.exists("/b/second") for each in left)
    assert any(not each.exists("/a/first") for each in left) is is_possible


@ORDER
def test_a_rename_happens_whole_or_not_at_all(order: Order) -> None:
    files = SimFiles()
    for name, data in (("/a", b"old"), ("/b", b"new")):
        write_file(files, name, data, sync=True)
    files.sync_dir("/")
    files.rename("/b", "/a")

    left = states(files, order)

    assert {(read_all(each, "/a"), each.exists("/b")) for each in left} == {(b"old", True), (b"new", False)}


def test_what_a_failed_sync_was_for_stays_in_doubt() -> None:
    files = SimFiles()
    fd = write_file(files, "/a", b"doubtful")
    files.sync_dir("/")

    def fail(call: str, _path: str) -> None:
        if call == "fdatasync":
            raise OSError(errno.EIO, "broken")

    files.before_call = fail
    assert outcome(lambda: files.fdatasync(fd)) == errno.EIO
    files.before_call = None
    write_all(files, fd, b" sure")
    files.fdatasync(fd)

    assert contents(states(files), "/a") == {b"doubtful sure", bytes(8) + b" sure"}


def test_a_truncation_may_be_undone_until_it_is_synced() -> None:
    files = SimFiles()
    fd = write_file(files, "/a", b"whole", sync=True)
    files.sync_dir("/")
    files.ftruncate(fd, 2)
    assert contents(states(files), "/a") == {b"whole", b"wh"}

    files.fdatasync(fd)

    assert contents(states(files), "/a") == {b"wh"}
