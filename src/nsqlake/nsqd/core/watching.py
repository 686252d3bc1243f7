"""Whom a channel tells how long things took; nobody, unless somebody wants to know."""

from typing import Protocol

import numpy as np
import numpy.typing as npt

__all__ = ["SAMPLED", "Durations", "FinishWatcher", "Timings"]

SAMPLED = 16  # of messages that go one by one, one in so many is timed, for all of them


class Durations(Protocol):
    def observe(self, duration_ns: int, count: int = 1) -> None: ...


class Timings(Protocol):
    """How long messages waited for their first delivery, and then for their FIN."""

    @property
    def delivery(self) -> Durations: ...
    @property
    def finish(self) -> Durations: ...


class FinishWatcher(Protocol):
    def finished(self, first: int, count: int) -> None: ...
    def finished_offsets(self, offsets: npt.NDArray[np.int64]) -> None: ...
