"""Runs cases A B A B: ours, the peer, ours, the peer, so that a change of the machine's mood meets both."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from bench.broker import Broker
from bench.case import Case
from bench.load.crew import Crew
from bench.load.errors import LoadError
from bench.progress import Progress
from bench.row import Row, Side
from bench.runners import Measurement, Stage, measure

# Twice what a peer was seen to take in: beyond its memory queue it would spill to disk.
MEMORY_MESSAGES_PER_SECOND = 4_000_000
MIN_MEMORY_MESSAGES = 2_000_000


@dataclass(frozen=True, slots=True)
class Settings:
    """`peer` is None when only ours is measured."""

    ours: Sequence[str]
    peer: Sequence[str] | None
    rounds: int
    seconds: float
    scale: float
    data_root: str | None

    def fill_in(self, flags: Sequence[str]) -> tuple[str, ...]:
        memory = max(MIN_MEMORY_MESSAGES, int(self.seconds * MEMORY_MESSAGES_PER_SECOND))
        return tuple(flag.format(memory=memory) for flag in flags)


class Comparison:
    """Owns the worker processes for as long as cases are run."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._crew = Crew()

    def runs_of(self, case: Case) -> int:
        return self._settings.rounds * (1 if self._peer_of(case) is None else 2)

    def _peer_of(self, case: Case) -> Sequence[str] | None:
        return None if case.is_ours_alone else self._settings.peer

    def run(self, case: Case, progress: Progress) -> Iterator[Row]:
        flags = self._settings.fill_in
        case = replace(case, our_flags=flags(case.our_flags), peer_flags=flags(case.peer_flags))
        peer_command = self._peer_of(case)
        ours: list[Measurement] = []
        peer: list[Measurement] = []
        try:
            for _ in range(self._settings.rounds):
                ours.append(self._run_once(case, self._settings.ours, case.our_flags))
                progress.step()
                if peer_command is not None:
                    peer.append(self._run_once(case, peer_command, case.peer_flags))
                    progress.step()
        except LoadError as error:
            self._crew.close()
            yield Row(case, case.metrics[0], None, None, failure=str(error))
            return
        for metric in case.metrics:
            yield Row(case, metric, Side(ours), Side(peer) if peer else None)

    def _run_once(self, case: Case, command: Sequence[str], flags: Sequence[str]) -> Measurement:
        with Broker(command, flags, self._settings.data_root) as broker:
            return measure(case.load, Stage(broker, self._crew, self._settings.seconds, self._settings.scale))

    def close(self) -> None:
        self._crew.close()
