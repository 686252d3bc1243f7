"""End-to-end latency: PUBs at a fixed rate with the send time in each body, and a consumer that subtracts."""

import socket
import time
from dataclasses import dataclass, replace

import numpy as np

from bench.load import commands
from bench.load.connection import Address, connect, give_up_reading_after
from bench.load.consume import IDLE_MS, STALL_SECONDS, Workspace
from bench.load.errors import LoadError
from bench.load.frames import Starts
from bench.load.job import Load, Result, Stopwatch, Tally
from bench.load.publish import OkCounter

TICK_NS = 1_000_000
BODY_BYTES = 200
STAMP_BYTES = 8
RDY = 2500
# Nobody's steady state: connections, caches and the first growth of buffers.
WARM_UP_SHARE = 0.1


@dataclass(frozen=True, slots=True)
class PacedPublishJob:
    """`per_second` PUBs for `seconds`, a burst every millisecond, OKs taken as they come."""

    address: Address
    topic: str
    per_second: int
    seconds: float

    @property
    def ticks(self) -> int:
        return int(self.seconds * 1e9) // TICK_NS

    @property
    def messages_per_tick(self) -> int:
        return self.per_second * TICK_NS // 10**9

    @property
    def message_count(self) -> int:
        return self.ticks * self.messages_per_tick

    def open(self, tally: Tally) -> Load:
        return PacedPublisher(self)


class PacedPublisher:
    """Keeps to its schedule whatever the broker does; `behind_ms` tells how far it ever fell back."""

    def __init__(self, job: PacedPublishJob) -> None:
        self._job = job
        per_tick = job.messages_per_tick
        command = commands.publish(job.topic, bytes(BODY_BYTES))
        self._burst = bytearray(command * per_tick)
        self._stamps = np.ndarray(
            (per_tick,),
            dtype=">i8",
            buffer=self._burst,
            offset=len(command) - BODY_BYTES,
            strides=(len(command),),
        )
        self._sock = connect(job.address)
        self._oks = OkCounter(self._sock)

    def run(self) -> Result:
        watch = Stopwatch()
        behind_ns = answered = 0
        for tick in range(self._job.ticks):
            due_ns = watch.start_ns + tick * TICK_NS
            if (wait_ns := due_ns - time.monotonic_ns()) > 0:
                time.sleep(wait_ns / 1e9)
            now_ns = time.monotonic_ns()
            behind_ns = max(behind_ns, now_ns - due_ns)
            self._stamps[:] = now_ns
            self._sock.sendall(self._burst)
            answered += self._take_answers(socket.MSG_DONTWAIT)
        while answered < self._job.message_count:
            answered += self._take_answers(0)
        return watch.result(answered, {"behind_ms": behind_ns / 1e6})

    def _take_answers(self, flags: int) -> int:
        try:
            data = self._sock.recv(1 << 16, flags)
        except BlockingIOError:
            return 0
        return self._oks.feed(data)

    def close(self) -> None:
        self._sock.close()


@dataclass(frozen=True, slots=True)
class LatencyJob:
    """Receive and finish `expected` messages; `settings` go into IDENTIFY, none are the broker's defaults."""

    address: Address
    topic: str
    channel: str
    expected: int
    settings: tuple[tuple[str, int], ...] = ()

    def open(self, tally: Tally) -> Load:
        return LatencyLoad(self)


class LatencyLoad:
    """Notes when each read returned and what stamps it brought; the sums are done after the run."""

    def __init__(self, job: LatencyJob) -> None:
        self._expected = job.expected
        hello = commands.identify(**dict(job.settings))
        self._sock = connect(job.address, hello, commands.subscribe(job.topic, job.channel))
        self._workspace = Workspace()
        self._latencies: list[Starts] = []
        self._partial = b""

    def run(self) -> Result:
        watch = Stopwatch()
        give_up_reading_after(self._sock, IDLE_MS)
        self._sock.sendall(commands.ready(RDY))
        count, moved_ns = 0, watch.start_ns
        while count < self._expected:
            try:
                count += self._receive()
                moved_ns = time.monotonic_ns()
            except BlockingIOError:
                if time.monotonic_ns() - moved_ns > STALL_SECONDS * 10**9:
                    raise LoadError(f"no message for {STALL_SECONDS} s after {count}") from None
        return replace(watch.result(count), extras=self._percentiles())

    def _receive(self) -> int:
        workspace, kept = self._workspace, len(self._partial)
        workspace.buffer[:kept] = self._partial
        filled = kept + self._sock.recv_into(workspace.view[kept:])
        now_ns = time.monotonic_ns()
        if filled == kept:
            raise LoadError("the broker closed the consumer's connection")
        cut = workspace.cutter.cut(filled)
        self._partial = bytes(workspace.view[cut.consumed : filled])
        if cut.heartbeats:
            self._sock.sendall(commands.NOP * cut.heartbeats)
        if len(cut.starts):
            self._latencies.append(now_ns - workspace.cutter.body_stamps(cut.starts))
            self._sock.sendall(workspace.lines.fill(workspace.cutter.ids(cut.starts)))
        return len(cut.starts)

    def _percentiles(self) -> dict[str, float]:
        latencies = np.concatenate(self._latencies) / 1e6
        steady = latencies[int(len(latencies) * WARM_UP_SHARE) :]
        p50, p99, highest = np.percentile(steady, [50, 99, 100])
        return {"p50_ms": float(p50), "p99_ms": float(p99), "max_ms": float(highest)}

    def close(self) -> None:
        self._sock.close()
