"""What a disk may hold after a power loss: every way to keep or lose what no sync has made durable.

A written stretch may be there, missing or torn at sector borders, apart from the size of its file, so that a
file may be long and full of zeros. How names come and go depends on the file system:

    JOURNAL        all changes of names happen in order: some first part of them is there (ext4, xfs)
    PER_DIRECTORY  those of one directory are in order, directories are independent
    ANY_ORDER      each may be there or not, whatever became of the others
"""

import itertools
import math
from collections.abc import Iterator, Sequence
from enum import Enum
from random import Random

from tests.fakes.sim_files import ROOT, Create, Cut, Image, Op, Remove, Rename, Sync, SyncFailed, Write

SECTOR_BYTES = 512
PAGE_BYTES = 4096


class Order(Enum):
    JOURNAL = "journal"
    PER_DIRECTORY = "per directory"
    ANY_ORDER = "any order"


class _Change:
    """Something that happened; once `is_forced` it is on the disk, when `is_stray` no sync will help it."""

    __slots__ = ("is_forced", "is_stray", "number", "op")

    def __init__(self, op: Op, number: int) -> None:
        self.op, self.number = op, number
        self.is_forced = self.is_stray = False


class _History:
    """The changes of one file or directory that may be missing after a power loss."""

    def __init__(self) -> None:
        self.changes: list[_Change] = []

    def sync(self) -> None:
        for change in self.changes:
            change.is_forced = change.is_forced or not change.is_stray
        settled = sum(1 for _ in itertools.takewhile(lambda change: change.is_forced, self.changes))
        for change in self.changes[:settled]:
            self.settle(change.op)
        del self.changes[:settled]

    def fail_sync(self) -> None:
        for change in self.changes:
            change.is_stray = change.is_stray or not change.is_forced

    def settle(self, op: Op) -> None:
        raise NotImplementedError


class _Names(_History):
    def __init__(self, names: dict[str, int]) -> None:
        super().__init__()
        self.names = dict(names)

    def settle(self, op: Op) -> None:
        _apply_name(self.names, op)

    @property
    def open_numbers(self) -> list[int]:
        return [change.number for change in self.changes if not change.is_forced]

    def after(self, happened: "set[int] | frozenset[int]") -> dict[str, int]:
        names = dict(self.names)
        for change in self.changes:
            if change.is_forced or change.number in happened:
                _apply_name(names, change.op)
        return names

    def nodes(self) -> Iterator[int]:
        yield from self.names.values()
        for change in self.changes:
            if isinstance(change.op, Create | Rename):
                yield change.op.node


class _Content(_History):
    def __init__(self, data: bytes) -> None:
        super().__init__()
        self.data = bytearray(data)

    def settle(self, op: Op) -> None:
        if isinstance(op, Write):
            _put(self.data, op.position, op.data)
        elif isinstance(op, Cut):
            _resize(self.data, op.length)

    def sizes(self) -> list[int]:
        """The sizes the file may have, by the number of changes whose effect on the size is there."""
        size, sizes = len(self.data), [len(self.data)]
        first = 0
        for number, change in enumerate(self.changes, 1):
            op = change.op
            size = op.length if isinstance(op, Cut) else max(size, op.position + len(op.data))  # type: ignore[union-attr]
            sizes.append(size)
            first = number if change.is_forced else first
        return [-1] * first + sizes[first:]

    def pieces(self, tear_bytes: int) -> list[tuple[int, int, bytes]]:
        """(change, position, data) of everything that may be there or not by itself."""
        return [
            (number, position, data)
            for number, change in enumerate(self.changes)
            if isinstance(change.op, Write) and not change.is_forced
            for position, data in _sectors(change.op, tear_bytes)
        ]

    def after(self, pieces: list[tuple[int, int, bytes]], mask: int, resized: int, size: int) -> bytes:
        kept: dict[int, list[tuple[int, bytes]]] = {}
        for bit, (number, position, data) in enumerate(pieces):
            if mask >> bit & 1:
                kept.setdefault(number, []).append((position, data))
        content = bytearray(self.data)
        for number, change in enumerate(self.changes):
            if isinstance(change.op, Cut):
                if number < resized:
                    _resize(content, change.op.length)
            elif change.is_forced and isinstance(change.op, Write):
                _put(content, change.op.position, change.op.data)
            for position, data in kept.get(number, ()):
                _put(content, position, data)
        _resize(content, size)
        return bytes(content)


def _apply_name(names: dict[str, int], op: Op) -> None:
    if isinstance(op, Create):
        names[op.name] = op.node
    elif isinstance(op, Remove):
        names.pop(op.name, None)
    elif isinstance(op, Rename):
        names.pop(op.source, None)
        names[op.target] = op.node


def _put(content: bytearray, position: int, data: bytes) -> None:
    if position > len(content):
        content.extend(bytes(position - len(content)))
    content[position : position + len(data)] = data


def _resize(content: bytearray, size: int) -> None:
    if size < len(content):
        del content[size:]
    else:
        content.extend(bytes(size - len(content)))


def _sectors(op: Write, tear_bytes: int) -> Iterator[tuple[int, bytes]]:
    position, end = op.position, op.position + len(op.data)
    while position < end:
        stop = min(end, (position // tear_bytes + 1) * tear_bytes)
        yield position, op.data[position - op.position : stop - op.position]
        position = stop


class Disk:
    """A disk while a trace runs over it: what is durable, and what is still open."""

    def __init__(self, image: Image) -> None:
        self._contents = {node: _Content(data) for node, data in image.files.items()}
        self._names = {node: _Names(names) for node, names in image.directories.items()}
        self._now = 0
        self._committed = 0  # with a journal, every name changed before this is on the disk

    def step(self, op: Op) -> None:
        self._now += 1
        if isinstance(op, Sync):
            self._history(op.node).sync()
            if op.node in self._names:
                self._committed = self._now
        elif isinstance(op, SyncFailed):
            if op.node in self._contents:
                self._contents[op.node].fail_sync()
        elif isinstance(op, Write | Cut):
            self._contents[op.node].changes.append(_Change(op, self._now))
        else:
            self._names[op.directory].changes.append(_Change(op, self._now))
            if isinstance(op, Create):
                self._begin(op)

    def _begin(self, op: Create) -> None:
        if op.is_directory:
            self._names[op.node] = _Names({})
        elif op.node not in self._contents:  # else it is one more name
            self._contents[op.node] = _Content(b"")

    def _history(self, node: int) -> _History:
        return self._names[node] if node in self._names else self._contents[node]

    def states(self, order: Order, random: Random, limit: int) -> list[Image]:
        """All images the disk may be left with, or a sample of `limit` of them; no two are equal."""
        choices = self._choices(order, SECTOR_BYTES)
        if math.prod(choice.count for choice in choices) <= limit:
            picks: Iterator[tuple[int, ...]] = itertools.product(*(range(c.count) for c in choices))
            return _distinct((self._image(choices, pick) for pick in picks), limit)
        return _distinct(self._sample(order, random, limit), limit)

    def _sample(self, order: Order, random: Random, limit: int) -> Iterator[Image]:
        torn_by = [self._choices(order, tear_bytes) for tear_bytes in (SECTOR_BYTES, PAGE_BYTES)]
        for names_stay, data_stays in itertools.product((False, True), repeat=2):
            yield self._image(torn_by[0], [c.corner(names_stay, data_stays) for c in torn_by[0]])
        for _ in range(3 * limit):
            choices = torn_by[random.random() < 0.3]
            yield self._image(choices, [choice.draw(random) for choice in choices])

    def _choices(self, order: Order, tear_bytes: int) -> "list[_Choice]":
        open_numbers = {node: n for node, names in self._names.items() if (n := names.open_numbers)}
        choices: list[_Choice] = []
        if order is Order.JOURNAL:
            together = sorted(itertools.chain(*open_numbers.values()))
            settled = [number for number in together if number <= self._committed]
            choices.append(_FirstPart(together, len(settled)))
        elif order is Order.PER_DIRECTORY:
            choices += [_FirstPart(numbers, 0) for numbers in open_numbers.values()]
        else:
            choices += [_AnyPart(numbers) for numbers in open_numbers.values()]
        reachable = set(itertools.chain(*(names.nodes() for names in self._names.values())))
        for node, content in self._contents.items():
            if content.changes and node in reachable:
                choices.append(_Torn(node, content, tear_bytes))
        return choices

    def _image(self, choices: "Sequence[_Choice]", picks: Sequence[int]) -> Image:
        happened: set[int] = set()
        torn: dict[int, bytes] = {}
        for choice, pick in zip(choices, picks, strict=True):
            if isinstance(choice, _Torn):
                torn[choice.node] = choice.content_of(pick)
            else:
                happened.update(choice.numbers_of(pick))
        image = Image({}, {})
        waiting = [ROOT]
        while waiting:
            node = waiting.pop()
            names = image.directories[node] = self._names[node].after(happened)
            for child in names.values():
                if child in self._names:
                    waiting.append(child)
                else:
                    image.files[child] = torn[child] if child in torn else bytes(self._contents[child].data)
        return image


class _Choice:
    """One thing that may have come out in `count` ways; 0 is the least that can be left."""

    count: int

    def draw(self, random: Random) -> int:
        kind = random.random()
        if kind < 0.2:
            return 0
        return self.count - 1 if kind < 0.4 else random.randrange(self.count)

    def corner(self, names_stay: bool, data_stays: bool) -> int:
        return self.count - 1 if names_stay else 0

    def numbers_of(self, pick: int) -> Sequence[int]:
        raise NotImplementedError


class _FirstPart(_Choice):
    def __init__(self, numbers: list[int], least: int) -> None:
        self._numbers, self._least = numbers, least
        self.count = len(numbers) - least + 1

    def numbers_of(self, pick: int) -> Sequence[int]:
        return self._numbers[: self._least + pick]


class _AnyPart(_Choice):
    def __init__(self, numbers: list[int]) -> None:
        self._numbers = numbers
        self.count = 1 << len(numbers)

    def numbers_of(self, pick: int) -> Sequence[int]:
        return [number for bit, number in enumerate(self._numbers) if pick >> bit & 1]


class _Torn(_Choice):
    """The size and each sector of a file by themselves."""

    def __init__(self, node: int, content: _Content, tear_bytes: int) -> None:
        self.node, self._content = node, content
        self._pieces = content.pieces(tear_bytes)
        self._sizes = [(resized, size) for resized, size in enumerate(content.sizes()) if size >= 0]
        self._masks = 1 << len(self._pieces)
        self.count = self._masks * len(self._sizes)

    def content_of(self, pick: int) -> bytes:
        size_pick, mask = divmod(pick, self._masks)
        return self._content.after(self._pieces, mask, *self._sizes[size_pick])

    def corner(self, names_stay: bool, data_stays: bool) -> int:
        mask = self._masks - 1 if data_stays else 0
        return (len(self._sizes) - 1 if names_stay or data_stays else 0) * self._masks + mask

    def draw(self, random: Random) -> int:
        bits = len(self._pieces)
        kind = random.random()
        if kind < 0.15:
            mask = 0
        elif kind < 0.4:
            mask = self._masks - 1
        elif kind < 0.6:  # written in order, up to some point
            mask = (1 << random.randint(0, bits)) - 1
        elif kind < 0.8 and bits:  # all but one
            mask = (self._masks - 1) & ~(1 << random.randrange(bits))
        else:
            mask = random.randrange(self._masks)
        size_pick = len(self._sizes) - 1 if random.random() < 0.6 else random.randrange(len(self._sizes))
        return size_pick * self._masks + mask


def _distinct(images: Iterator[Image], limit: int) -> list[Image]:
    found: dict[int, Image] = {}
    for image in images:
        found.setdefault(image.key(), image)
        if len(found) >= limit:
            break
    return list(found.values())
