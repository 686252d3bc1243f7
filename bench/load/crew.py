"""Worker processes, started once and reused for every run, so that no run pays for an interpreter's start."""

import multiprocessing
import traceback
from collections.abc import Sequence
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from multiprocessing.sharedctypes import RawArray
from typing import Any

from bench.load.errors import LoadError
from bench.load.job import Job, Result, Tally

MAX_WORKERS = 8
RUN_TIMEOUT_SECONDS = 300
READY, GO = "ready", "go"


class Squad:
    """The workers of one run. They are ready when this exists; `go` starts their clocks."""

    def __init__(self, crew: "Crew", pipes: "Sequence[Connection[Any, Any]]") -> None:
        self._crew = crew
        self._pipes = pipes

    def go(self) -> None:
        for pipe in self._pipes:
            pipe.send(GO)

    def collect(self) -> list[Result]:
        results = [self._crew.receive(pipe) for pipe in self._pipes]
        self._crew.give_back(self._pipes)
        return results


class Crew:
    """A pool of worker processes; after a failure all are replaced, since the others may wait for ever."""

    def __init__(self) -> None:
        self._context = multiprocessing.get_context("spawn")
        self._slots = RawArray("q", MAX_WORKERS)
        self._processes: list[BaseProcess] = []
        self._idle: list[Connection[Any, Any]] = []

    def prepare(self, jobs: Sequence[Job]) -> Squad:
        pipes = [self._take() for _ in jobs]
        for pipe, job in zip(pipes, jobs, strict=True):
            pipe.send(job)
        for pipe in pipes:
            if (answer := self.receive(pipe)) != READY:
                raise LoadError(f"a worker said {answer!r} instead of {READY!r}")
        return Squad(self, pipes)

    def run(self, jobs: Sequence[Job]) -> list[Result]:
        squad = self.prepare(jobs)
        squad.go()
        return squad.collect()

    def reset_tally(self) -> None:
        for index in range(MAX_WORKERS):
            self._slots[index] = 0

    def receive(self, pipe: "Connection[Any, Any]") -> Any:
        try:
            if not pipe.poll(RUN_TIMEOUT_SECONDS):
                raise LoadError(f"a worker took more than {RUN_TIMEOUT_SECONDS} s")
            answer = pipe.recv()
        except (EOFError, OSError) as error:
            raise LoadError("a worker process died") from error
        if isinstance(answer, Failure):
            raise LoadError(answer.text)
        return answer

    def give_back(self, pipes: "Sequence[Connection[Any, Any]]") -> None:
        self._idle.extend(pipes)

    def close(self) -> None:
        for process in self._processes:
            process.kill()
            process.join()
        self._processes.clear()
        self._idle.clear()

    def _take(self) -> "Connection[Any, Any]":
        if not self._idle:
            ours, theirs = self._context.Pipe()
            index = len(self._processes)
            arguments = (theirs, self._slots, index)
            process = self._context.Process(target=work, args=arguments, daemon=True)
            process.start()
            theirs.close()
            self._processes.append(process)
            self._idle.append(ours)
        return self._idle.pop(0)


class Failure:
    """A worker's exception, as text: the exception itself may not survive pickling."""

    def __init__(self, error: Exception) -> None:
        short = isinstance(error, LoadError)
        self.text = str(error) if short else "".join(traceback.format_exception(error))


def work(pipe: "Connection[Any, Any]", slots: Any, index: int) -> None:
    """The life of a worker process: job in, `ready` out, `go` in, result out, until the pipe closes."""
    tally = Tally(memoryview(slots).cast("B").cast("q"), index)
    while True:
        try:
            job = pipe.recv()
        except (EOFError, KeyboardInterrupt):
            return
        try:
            pipe.send(run_job(job, tally, pipe))
        except KeyboardInterrupt:
            return
        except Exception as error:
            pipe.send(Failure(error))


def run_job(job: Job, tally: Tally, pipe: "Connection[Any, Any]") -> Result:
    load = job.open(tally)
    try:
        pipe.send(READY)
        if pipe.recv() != GO:
            raise LoadError("the run was called off")
        return load.run()
    finally:
        load.close()
