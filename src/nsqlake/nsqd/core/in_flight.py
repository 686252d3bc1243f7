"""Which messages of a channel are out, and with whom: pages of 4,096 offsets with an owner slot each.

A page is a bytearray of 2-byte owner slots (0: nobody), so that a run of messages is handed out by one
slice assignment and finished by one comparison. A page also counts the messages of its range that wait
(requeued or deferred), because storage may only forget a range that holds neither.
"""

from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from nsqlake.wire.command_reader import FIN_LINE_BYTES
from nsqlake.wire.message import ID_PAGE

__all__ = ["PAGE_MASK", "PAGE_SHIFT", "InFlight", "Page"]

PAGE_SHIFT = 12
PAGE_MASK = ID_PAGE - 1
_SLOT_BYTES = 2
_ZEROS = bytes(ID_PAGE * _SLOT_BYTES)

_FIN_TEMPLATE: npt.NDArray[np.uint8] = np.frombuffer(
    b"".join(b"FIN 0000000000000%03x\n" % number for number in range(ID_PAGE)), np.uint8
).reshape(ID_PAGE, FIN_LINE_BYTES)


class Page:
    """Owners of 4,096 consecutive offsets, and how many of those messages are out or wait."""

    __slots__ = ("_fin_lines", "in_flight", "owners", "slots", "table", "waiting")

    def __init__(self) -> None:
        self.owners = bytearray(ID_PAGE * _SLOT_BYTES)
        # The same bytes twice more: quick for one slot, and for many.
        self.slots = memoryview(self.owners).cast("H")
        self.table: npt.NDArray[np.uint16] = np.frombuffer(self.owners, np.uint16)
        self.in_flight = 0
        self.waiting = 0
        self._fin_lines: bytes | None = None

    @property
    def is_unused(self) -> bool:
        return not self.in_flight and not self.waiting

    def fin_lines(self, first_id: int) -> bytes:
        """The FIN lines of the whole page in order; `first_id` is the id of its first offset."""
        if self._fin_lines is None:
            lines = _FIN_TEMPLATE.copy()
            lines[:, 4:17] = np.frombuffer((b"%016x" % first_id)[:13], np.uint8)
            self._fin_lines = lines.tobytes()
        return self._fin_lines


class InFlight:
    """The pages of one channel. `id_base` is added to an offset to make its message id."""

    __slots__ = ("count", "id_base", "pages")

    def __init__(self, id_base: int) -> None:
        self.id_base = id_base
        self.pages: dict[int, Page] = {}
        self.count = 0

    def page(self, number: int) -> Page:
        page = self.pages.get(number)
        if page is None:
            page = self.pages[number] = Page()
        return page

    def hand_out(self, first: int, count: int, slot: int) -> None:
        """Give a run, all in one page, to the owner of `slot`."""
        page = self.pages.get(first >> PAGE_SHIFT) or self.page(first >> PAGE_SHIFT)
        if count == 1:
            page.slots[first & PAGE_MASK] = slot
        else:
            at = (first & PAGE_MASK) * _SLOT_BYTES
            page.owners[at : at + count * _SLOT_BYTES] = slot.to_bytes(_SLOT_BYTES, "little") * count
        page.in_flight += count
        self.count += count

    def owner(self, offset: int) -> int:
        page = self.pages.get(offset >> PAGE_SHIFT)
        return 0 if page is None else page.slots[offset & PAGE_MASK]

    def take_back(self, offset: int) -> None:
        """The message is out no longer; its page stays for the caller to count it as waiting or drop."""
        page = self.pages[offset >> PAGE_SHIFT]
        page.slots[offset & PAGE_MASK] = 0
        page.in_flight -= 1
        self.count -= 1

    def match_in_order(self, lines: bytes, slot: int) -> tuple[int, int] | None:
        """(first, count) if the FIN lines are consecutive ids of one page, all held by `slot`."""
        try:
            offset = int(lines[4:20], 16) - self.id_base
        except ValueError:
            return None
        page = self.pages.get(offset >> PAGE_SHIFT)
        if page is None:
            return None
        index = offset & PAGE_MASK
        first_id = self.id_base + offset - index
        if not page.fin_lines(first_id).startswith(lines, index * FIN_LINE_BYTES):
            return None
        count = len(lines) // FIN_LINE_BYTES
        at = index * _SLOT_BYTES
        held = page.owners[at : at + count * _SLOT_BYTES] == slot.to_bytes(_SLOT_BYTES, "little") * count
        return (offset, count) if held else None

    def clear_run(self, first: int, count: int) -> None:
        """Every message of the run, all in one page and all out, is out no longer."""
        page = self.pages[first >> PAGE_SHIFT]
        if count == 1:
            page.slots[first & PAGE_MASK] = 0
        else:
            at = (first & PAGE_MASK) * _SLOT_BYTES
            page.owners[at : at + count * _SLOT_BYTES] = _ZEROS[: count * _SLOT_BYTES]
        page.in_flight -= count
        self.count -= count

    def are_held(self, offsets: npt.NDArray[Any], slot: int) -> bool:
        """Whether `slot` holds every one of the sorted, distinct offsets."""
        for page, indexes in self._by_page(offsets):
            if page is None or not (page.table[indexes] == slot).all():
                return False
        return True

    def clear(self, offsets: npt.NDArray[Any]) -> None:
        """Sorted, distinct offsets that are out are out no longer."""
        for page, indexes in self._by_page(offsets):
            assert page is not None
            page.table[indexes] = 0
            page.in_flight -= len(indexes)
        self.count -= len(offsets)

    def clear_below(self, offset: int) -> dict[int, int]:
        """Nothing below `offset` is out any longer; returns how many messages each slot held."""
        last, held = offset >> PAGE_SHIFT, Counter[int]()
        for number in [number for number in self.pages if number <= last]:
            page = self.pages[number]
            part = page.table if number < last else page.table[: offset & PAGE_MASK]
            slots, counts = np.unique(part[part != 0], return_counts=True)
            held.update(dict(zip(slots.tolist(), counts.tolist(), strict=True)))
            part[:] = 0
            page.in_flight -= int(counts.sum())
        self.count -= held.total()
        return held

    def _by_page(self, offsets: npt.NDArray[Any]) -> Iterator[tuple[Page | None, npt.NDArray[Any]]]:
        numbers = offsets >> PAGE_SHIFT
        cuts = np.flatnonzero(numbers[1:] != numbers[:-1]) + 1
        for part in np.split(offsets, cuts):
            yield self.pages.get(int(part[0]) >> PAGE_SHIFT), part & PAGE_MASK

    def held_by(self, slot: int, first: int, count: int) -> list[int]:
        """The offsets of a run, all in one page, that `slot` still holds."""
        page = self.pages.get(first >> PAGE_SHIFT)
        if page is None or not page.in_flight:
            return []
        index = first & PAGE_MASK
        found = np.flatnonzero(page.table[index : index + count] == slot)
        return [first + int(at) for at in found]

    def is_run_over(self, first: int, count: int) -> bool:
        """Whether nobody holds any message of the run."""
        page = self.pages.get(first >> PAGE_SHIFT)
        if page is None or not page.in_flight:
            return True
        at = (first & PAGE_MASK) * _SLOT_BYTES
        return page.owners[at : at + count * _SLOT_BYTES] == _ZEROS[: count * _SLOT_BYTES]

    def drop_if_unused(self, number: int) -> None:
        page = self.pages.get(number)
        if page is not None and page.is_unused:
            del self.pages[number]

    def runs(self) -> Iterator[tuple[int, int]]:
        """Every message that is out, as (first, count) in order."""
        for number in sorted(self.pages):
            page = self.pages[number]
            if not page.in_flight:
                continue
            out = np.flatnonzero(page.table)
            cuts = np.flatnonzero(np.diff(out) != 1) + 1
            for part in np.split(out, cuts):
                yield (number << PAGE_SHIFT) + int(part[0]), len(part)
