"""Publishers: MPUB and PUB with one command outstanding per connection, and PUB in a pipeline."""

import itertools
import select
import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from bench.load import commands
from bench.load.connection import Address, connect
from bench.load.errors import LoadError
from bench.load.frames import FrameCutter
from bench.load.job import Load, Result, Stopwatch, Tally

FOREVER_NS = 2**63
# So many different commands take turns: a broker that remembers its last input gains nothing unreal.
DIFFERENT_COMMANDS = 8
PIPELINE_CHUNK = 100
PIPELINE_WINDOW = 1000


class Publishing(Enum):
    """How a message is sent."""

    MPUB = "MPUB"
    PUB = "PUB"
    PIPELINED = "pipelined PUB"


@dataclass(frozen=True, slots=True)
class PublishJob:
    """Publish for `seconds`, or exactly `count` messages when that is given."""

    address: Address
    topic: str
    publishing: Publishing
    connections: int = 1
    sizes: tuple[int, int] = (200, 200)
    batch: int = 200
    seconds: float = 0.0
    count: int | None = None

    def open(self, tally: Tally) -> Load:
        if self.publishing is Publishing.PIPELINED:
            return PipelineLoad(self)
        return RequestLoad(self)

    @property
    def messages_per_command(self) -> int:
        return self.batch if self.publishing is Publishing.MPUB else 1

    def command_cycle(self) -> Iterator[bytes]:
        bodies = commands.make_bodies(DIFFERENT_COMMANDS * self.messages_per_command, *self.sizes)
        if self.publishing is Publishing.PUB:
            return itertools.cycle([commands.publish(self.topic, body) for body in bodies])
        batches = [bodies[i : i + self.batch] for i in range(0, len(bodies), self.batch)]
        return itertools.cycle([commands.multi_publish(self.topic, batch) for batch in batches])


class OkCounter:
    """Counts the OKs in a connection's received bytes; anything but an OK or a heartbeat ends the load."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._partial = b""

    def feed(self, data: bytes) -> int:
        if data == commands.OK_FRAME and not self._partial:
            return 1
        if not data:
            raise LoadError("the broker closed the connection")
        return self._count(self._partial + data)

    def _count(self, data: bytes) -> int:
        plain = len(data) // len(commands.OK_FRAME)
        if data.startswith(commands.OK_FRAME * plain) and len(data) % len(commands.OK_FRAME) == 0:
            self._partial = b""
            return plain
        cut = FrameCutter(bytearray(data.ljust(32))).cut(len(data))
        self._partial = data[cut.consumed :]
        if cut.heartbeats:
            self._sock.sendall(commands.NOP * cut.heartbeats)
        if any(response != b"OK" for response in cut.responses):
            raise LoadError(f"expected OK, got {cut.responses!r}")
        return len(cut.responses)


class Pace:
    """Says whether one more command may be sent: until a deadline, or until the count is reached."""

    def __init__(self, job: PublishJob, start_ns: int) -> None:
        self._left = FOREVER_NS if job.count is None else job.count // job.messages_per_command
        self._deadline_ns = FOREVER_NS if job.count is not None else start_ns + int(job.seconds * 1e9)

    def take(self, commands_wanted: int = 1) -> int:
        if time.monotonic_ns() >= self._deadline_ns:
            return 0
        taken = min(self._left, commands_wanted)
        self._left -= taken
        return taken


class RequestLoad:
    """Send a command, wait for its OK, send the next."""

    def __init__(self, job: PublishJob) -> None:
        self._job = job
        self._commands = job.command_cycle()
        self._sockets = [connect(job.address) for _ in range(job.connections)]
        self._counters = {sock.fileno(): OkCounter(sock) for sock in self._sockets}
        self._acknowledged = 0

    def run(self) -> Result:
        watch = Stopwatch()
        pace = Pace(self._job, watch.start_ns)
        if len(self._sockets) == 1:
            self._run_one(self._sockets[0], pace)
        else:
            self._run_many(pace)
        return watch.result(self._acknowledged * self._job.messages_per_command)

    def _run_one(self, sock: socket.socket, pace: Pace) -> None:
        counter = self._counters[sock.fileno()]
        while pace.take():
            sock.sendall(next(self._commands))
            while not (count := counter.feed(sock.recv(64))):
                pass
            self._acknowledged += count

    def _run_many(self, pace: Pace) -> None:
        by_descriptor = {sock.fileno(): sock for sock in self._sockets}
        outstanding = 0
        with select.epoll() as poller:
            for descriptor, sock in by_descriptor.items():
                poller.register(descriptor, select.EPOLLIN)
                if pace.take():
                    sock.sendall(next(self._commands))
                    outstanding += 1
            while outstanding:
                for descriptor, _ in poller.poll():
                    sock = by_descriptor[descriptor]
                    if not self._counters[descriptor].feed(sock.recv(64)):
                        continue
                    self._acknowledged += 1
                    if pace.take():
                        sock.sendall(next(self._commands))
                    else:
                        outstanding -= 1

    def close(self) -> None:
        for sock in self._sockets:
            sock.close()


class PipelineLoad:
    """PUBs in chunks of one send, never more than a window of them unanswered, on one connection."""

    def __init__(self, job: PublishJob) -> None:
        self._job = job
        bodies = commands.make_bodies(DIFFERENT_COMMANDS * PIPELINE_CHUNK, *job.sizes)
        self._commands = [commands.publish(job.topic, body) for body in bodies]
        starts = range(0, len(bodies), PIPELINE_CHUNK)
        self._chunks = itertools.cycle([b"".join(self._commands[i : i + PIPELINE_CHUNK]) for i in starts])
        self._sock = connect(job.address)
        self._counter = OkCounter(self._sock)

    def run(self) -> Result:
        watch = Stopwatch()
        pace = Pace(self._job, watch.start_ns)
        sent = acknowledged = 0
        going = True
        while going or acknowledged < sent:
            if going and sent - acknowledged <= PIPELINE_WINDOW - PIPELINE_CHUNK:
                taken = pace.take(PIPELINE_CHUNK)
                self._sock.sendall(self._next(taken))
                sent += taken
                going = taken > 0
            else:
                acknowledged += self._counter.feed(self._sock.recv(1 << 16))
        return watch.result(acknowledged)

    def _next(self, count: int) -> bytes:
        return next(self._chunks) if count == PIPELINE_CHUNK else b"".join(self._commands[:count])

    def close(self) -> None:
        self._sock.close()
