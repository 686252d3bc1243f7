"""One kind of damage per case, done to the files of one topic that no daemon uses."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random

from tests.crash.bodies import Key
from tests.crash.data_files import BlockPlace, TopicFiles, append, flip_bit, overwrite, touched

PAGE_BYTES = 4096
IN_PAYLOAD = 8 * 21  # a bit behind the header of an atomic file


@dataclass(frozen=True, slots=True)
class Target:
    files: TopicFiles
    blocks: list[BlockPlace]


@dataclass(frozen=True, slots=True)
class Case:
    """`damage` returns the messages that it costs, `says` what the log must hold of it."""

    damage: Callable[[Target], set[Key]]
    says: str
    forgets: bool = False  # what was finished may come again
    channels: tuple[str, ...] = ("idle", "half")


def cut_tail(nbytes: int) -> Callable[[Target], set[Key]]:
    def damage(target: Target) -> set[Key]:
        last = target.files.segments[-1]
        size = last.stat().st_size
        os.truncate(last, size - nbytes)
        return touched(target.blocks, last, size - nbytes, size)

    return damage


def append_tail(make: Callable[[bytes], bytes]) -> Callable[[Target], set[Key]]:
    """`make` gets the last block."""

    def damage(target: Target) -> set[Key]:
        block = target.blocks[-1]
        append(block.path, make(block.path.read_bytes()[block.start : block.end]))
        return set()

    return damage


def zero_page(segment: int) -> Callable[[Target], set[Key]]:
    def damage(target: Target) -> set[Key]:
        path, position = target.files.segments[segment], 2 * PAGE_BYTES
        overwrite(path, position, bytes(PAGE_BYTES))
        return touched(target.blocks, path, position, position + PAGE_BYTES)

    return damage


def flip_bits_of_blocks(target: Target) -> set[Key]:
    random = Random(22)
    hit = random.sample(target.blocks[:-1], 8)  # more would run into the limit of log lines a second
    for block in hit:
        flip_bit(block.path, random.randrange(8 * block.start, 8 * block.end))
    return {key for block in hit for key in block.keys}


def flip_bits_of_headers(target: Target) -> set[Key]:
    for number, path in enumerate(target.files.segments):
        flip_bit(path, 8 * (number % 40) + 1)
    return set()


def lose_segment(target: Target) -> set[Key]:
    path = target.files.segments[1]
    path.unlink()
    return touched(target.blocks, path, 0, 1 << 60)


def lose_all_but_the_log(target: Target) -> set[Key]:
    for path in target.files.path.rglob("*"):
        if path.is_file() and path.suffix != ".log":
            path.unlink()
    return set()


def ruin_files(pattern: str, ruin: Callable[[Path], None]) -> Callable[[Target], set[Key]]:
    def damage(target: Target) -> set[Key]:
        paths = sorted(target.files.path.glob(pattern))
        assert paths, pattern
        for path in paths:
            ruin(path)
        return set()

    return damage


def flip_bit_of_newest(pattern: str) -> Callable[[Target], set[Key]]:
    """Of the two generations of a file, the newer one is the only one damaged."""

    def damage(target: Target) -> set[Key]:
        newest = max(target.files.path.glob(pattern), key=lambda path: path.read_bytes()[8:16])
        flip_bit(newest, IN_PAYLOAD)
        return set()

    return damage


def delete(path: Path) -> None:
    path.unlink()


def make_empty(path: Path) -> None:
    os.truncate(path, 0)


def make_garbage(path: Path) -> None:
    path.write_bytes(Random(path.name).randbytes(max(path.stat().st_size, 100)))


def make_zeros(path: Path) -> None:
    path.write_bytes(bytes(path.stat().st_size))


def cut_in_half(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


RUINS = (delete, make_empty, make_garbage, make_zeros, cut_in_half)

DERIVED = {
    "state": ("state.*", "state file lost"),
    "journals": ("channels/*.journal", "journal (lost|torn or damaged)"),
    "indexes": ("log/*.index", "indexes rebuilt"),
    "identity": ("log/identity.*", "header or identity damaged"),
}

CASES = {
    **{
        f"tail-cut-by-{nbytes}": Case(cut_tail(nbytes), "torn block cut off")
        for nbytes in (1, 60, 700, 5_000)
    },
    "zeros-appended": Case(append_tail(lambda _: bytes(9_000)), "torn block cut off"),
    "garbage-appended": Case(append_tail(lambda _: Random(20).randbytes(5_000)), "torn block cut off"),
    "half-a-block-appended": Case(append_tail(lambda data: data[: len(data) // 2]), "torn block cut off"),
    "old-block-appended": Case(append_tail(lambda data: data), "torn block cut off"),
    **{f"page-zeroed-in-{n}": Case(zero_page(n), "damaged block skipped") for n in (0, 1, -1)},
    "bits-flipped-in-blocks": Case(flip_bits_of_blocks, "damaged block skipped"),
    "bits-flipped-in-headers": Case(flip_bits_of_headers, "header or identity damaged"),
    "segment-missing": Case(lose_segment, "segment missing"),
    **{
        f"{what}-{ruin.__name__}": Case(ruin_files(pattern, ruin), says, forgets=True)
        for what, (pattern, says) in DERIVED.items()
        for ruin in RUINS
    },
    "newest-state-flipped": Case(flip_bit_of_newest("state.*"), "taken from its journal"),
    "newest-identity-flipped": Case(flip_bit_of_newest("log/identity.*"), ""),
    "only-the-log-left": Case(lose_all_but_the_log, "state file lost", channels=("idle",)),
}
