"""Medians, ratios and verdicts: from the measurements of a case to its rows."""

import os
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from bench.case import Better, Case, Metric
from bench.runners import Measurement

# Above this share of its wall time a worker process has no time left to wait for the broker.
WORKER_FULL = 0.85
BROKER_NOT_FULL = 0.9
CORES_FULL = 0.95


@dataclass(frozen=True, slots=True)
class Side:
    """All measurements of one case on one broker."""

    measurements: Sequence[Measurement]

    def values(self, key: str) -> list[float]:
        return [measurement.values[key] for measurement in self.measurements]

    def median(self, key: str) -> float:
        return statistics.median(self.values(key))

    @property
    def broker_cores(self) -> float:
        return statistics.median(measurement.broker_cores for measurement in self.measurements)

    @property
    def generator_cores(self) -> float:
        return statistics.median(measurement.generator_cores for measurement in self.measurements)

    @property
    def note(self) -> str:
        """Why the figure may not be the broker's own limit."""
        busiest = statistics.median(measurement.busiest_worker for measurement in self.measurements)
        if busiest > WORKER_FULL and self.broker_cores < BROKER_NOT_FULL:
            return "generator-bound"
        cores = len(os.sched_getaffinity(0))
        if self.broker_cores + self.generator_cores > CORES_FULL * cores:
            return "cores full"
        return ""

    def as_json(self, key: str) -> dict[str, Any]:
        extras = {name: self.values(name) for name in self.measurements[0].values}
        return {
            "median": self.median(key),
            "values": self.values(key),
            "broker_cores": round(self.broker_cores, 3),
            "generator_cores": round(self.generator_cores, 3),
            "note": self.note,
            "all": extras,
        }


@dataclass(frozen=True, slots=True)
class Row:
    """One metric of one case, on both sides where both were run."""

    case: Case
    metric: Metric
    ours: Side | None
    peer: Side | None
    failure: str = ""

    @property
    def ratio(self) -> float | None:
        if self.ours is None or self.peer is None:
            return None
        peer = self.peer.median(self.metric.key)
        return self.ours.median(self.metric.key) / peer if peer else None

    @property
    def verdict(self) -> str:
        """`goal`, `floor` (between the two), `below`, or nothing where there is nothing to compare with."""
        if self.failure:
            return "failed"
        if self._is_beyond_limit():
            return "below"
        ratio, goal, floor = self.ratio, self.metric.goal, self.metric.floor
        if goal is None and self.metric.limit is not None:
            return "goal"
        if ratio is None or goal is None or floor is None:
            return ""
        if self._reaches(ratio, goal):
            return "goal"
        return "floor" if self._reaches(ratio, floor) else "below"

    def _reaches(self, ratio: float, bound: float) -> bool:
        return ratio >= bound if self.metric.better is Better.HIGHER else ratio <= bound

    def _is_beyond_limit(self) -> bool:
        limit = self.metric.limit
        return limit is not None and self.ours is not None and not self._reaches(self._our_median, limit)

    @property
    def _our_median(self) -> float:
        assert self.ours is not None
        return self.ours.median(self.metric.key)

    @property
    def notes(self) -> str:
        sides = (("ours", self.ours), ("peer", self.peer))
        return ", ".join(f"{name} {side.note}" for name, side in sides if side is not None and side.note)

    def as_json(self) -> dict[str, Any]:
        return {
            "case": self.case.name,
            "what": self.case.what,
            "metric": self.metric.key,
            "unit": self.metric.unit,
            "better": self.metric.better.value,
            "our_flags": self.case.our_flags,
            "peer_flags": self.case.peer_flags,
            "ours": self.ours and self.ours.as_json(self.metric.key),
            "peer": self.peer and self.peer.as_json(self.metric.key),
            "ratio": self.ratio,
            "goal": self.metric.goal,
            "floor": self.metric.floor,
            "limit": self.metric.limit,
            "verdict": self.verdict,
            "failure": self.failure,
        }
