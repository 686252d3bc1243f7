"""Makes runs of `FIN <id>` commands out of the ids of received messages, in order or shuffled."""

import numpy as np
import numpy.typing as npt

LINE = b"FIN 0123456789abcdef\n"
ID_IN_LINE = 4

Ids = npt.NDArray[np.void]


class FinishLines:
    """Room for `capacity` FIN lines of which only the ids are ever written."""

    def __init__(self, capacity: int) -> None:
        lines = bytearray(LINE * capacity)
        self._view = memoryview(lines)
        self._ids: Ids = np.ndarray(
            (capacity,), dtype="V16", buffer=lines, offset=ID_IN_LINE, strides=(len(LINE),)
        )

    def fill(self, ids: Ids) -> memoryview:
        """The lines for `ids`; valid until the next call."""
        self._ids[: len(ids)] = ids
        return self._view[: len(ids) * len(LINE)]


class Shuffle:
    """Holds ids back until there are `window` of them, then lets them go in random order."""

    def __init__(self, window: int, seed: int) -> None:
        self._window = window
        self._held: list[Ids] = []
        self._count = 0
        self._random = np.random.default_rng(seed)

    def add(self, ids: Ids) -> Ids:
        self._held.append(ids)
        self._count += len(ids)
        return self.take_all() if self._count >= self._window else ids[:0]

    def take_all(self) -> Ids:
        if not self._held:
            return np.empty(0, dtype="V16")
        together = np.concatenate(self._held)
        self._held.clear()
        self._count = 0
        return self._random.permutation(together)
