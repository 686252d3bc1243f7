"""Consumers that only count and finish: the least work a client can do for a message."""

import select
import time
from dataclasses import dataclass

from bench.load import commands
from bench.load.connection import Address, connect, give_up_reading_after
from bench.load.errors import LoadError
from bench.load.finish import FinishLines, Ids, Shuffle
from bench.load.frames import ID_BYTES, ID_POSITION, MESSAGE, MIN_MESSAGE_BYTES, FrameCutter
from bench.load.job import Load, Result, Stopwatch, Tally

# Holds all that RDY 2500 lets out to one consumer, so that one read can take it. With a quarter of it,
# messages of mixed sizes cost at least a third more CPU.
BUFFER_BYTES = 1024 * 1024
IDLE_MS = 2
STALL_SECONDS = 20
FOREVER_NS = 2**63
# The shortest flush period Go's nsqd allows: its last messages would else wait up to 250 ms in its buffer.
FLUSH_MS = 25


@dataclass(frozen=True, slots=True)
class ConsumeJob:
    """Finish until all workers together have `expected` messages, or for `seconds` when that is None."""

    address: Address
    topic: str
    channels: tuple[str, ...]
    rdy: int
    expected: int | None = None
    seconds: float = 0.0
    shuffle_window: int = 0

    def open(self, tally: Tally) -> Load:
        return ConsumeLoad(self, tally)


class Workspace:
    """The receive buffer and the FIN lines all connections of a process share: they stay in the cache."""

    def __init__(self) -> None:
        self.buffer = bytearray(BUFFER_BYTES)
        self.view = memoryview(self.buffer)
        self.cutter = FrameCutter(self.buffer)
        self.lines = FinishLines(2 * BUFFER_BYTES // MIN_MESSAGE_BYTES)


class Consumer:
    """One subscribed connection."""

    def __init__(self, job: ConsumeJob, channel: str, workspace: Workspace) -> None:
        hello = commands.identify(output_buffer_timeout=FLUSH_MS)
        self.sock = connect(job.address, hello, commands.subscribe(job.topic, channel))
        self._workspace = workspace
        self._partial = b""
        self._shuffle = Shuffle(job.shuffle_window, self.sock.fileno()) if job.shuffle_window else None
        self.is_closing = False

    def receive(self) -> int:
        """Take what has come, finish it, and say how many messages it was."""
        workspace, kept = self._workspace, len(self._partial)
        workspace.buffer[:kept] = self._partial
        received = self.sock.recv_into(workspace.view[kept:])
        if not received:
            raise LoadError("the broker closed the connection")
        filled = kept + received
        if self._shuffle is None and self._is_one_message(filled):
            self._partial = b""
            self.sock.sendall(b"FIN " + workspace.buffer[ID_POSITION : ID_POSITION + ID_BYTES] + b"\n")
            return 1
        return self._finish_all(filled)

    def _is_one_message(self, filled: int) -> bool:
        buffer = self._workspace.buffer
        return (
            filled >= MIN_MESSAGE_BYTES
            and filled == 4 + commands.INT32.unpack_from(buffer)[0]
            and buffer[7] == MESSAGE
        )

    def _finish_all(self, filled: int) -> int:
        workspace = self._workspace
        cut = workspace.cutter.cut(filled)
        self._partial = bytes(workspace.view[cut.consumed : filled])
        if cut.heartbeats:
            self.sock.sendall(commands.NOP * cut.heartbeats)
        if b"CLOSE_WAIT" in cut.responses:
            self.is_closing = True
        if count := len(cut.starts):
            ids = workspace.cutter.ids(cut.starts)
            self._send(ids if self._shuffle is None else self._shuffle.add(ids))
        return count

    def _send(self, ids: Ids) -> None:
        if len(ids):
            self.sock.sendall(self._workspace.lines.fill(ids))

    def flush(self) -> None:
        """Finish what a shuffle still holds."""
        if self._shuffle is not None:
            self._send(self._shuffle.take_all())


class ConsumeLoad:
    """All consumers of one worker process."""

    def __init__(self, job: ConsumeJob, tally: Tally) -> None:
        workspace = Workspace()
        self._job = job
        self._tally = tally
        self._consumers = [Consumer(job, channel, workspace) for channel in job.channels]

    def run(self) -> Result:
        watch = Stopwatch()
        ready = commands.ready(self._job.rdy)
        for consumer in self._consumers:
            consumer.sock.sendall(ready)
        if len(self._consumers) == 1:
            self._run_one(self._consumers[0], watch.start_ns)
        else:
            self._run_many(watch.start_ns)
        if self._job.expected is not None:
            self._confirm()
        return watch.result(self._tally.own)

    def _run_one(self, consumer: Consumer, start_ns: int) -> None:
        give_up_reading_after(consumer.sock, IDLE_MS)
        ending = Ending(self._job, self._tally, start_ns)
        while not ending.is_reached():
            try:
                self._tally.add(consumer.receive())
            except BlockingIOError:
                consumer.flush()
                ending.note_idle()
        give_up_reading_after(consumer.sock, 0)

    def _run_many(self, start_ns: int) -> None:
        by_descriptor = {consumer.sock.fileno(): consumer for consumer in self._consumers}
        ending = Ending(self._job, self._tally, start_ns)
        with select.epoll() as poller:
            for descriptor in by_descriptor:
                poller.register(descriptor, select.EPOLLIN)
            while not ending.is_reached():
                events = poller.poll(IDLE_MS / 1000)
                self._tally.add(sum([by_descriptor[descriptor].receive() for descriptor, _ in events]))
                if not events:
                    self._flush()
                    ending.note_idle()

    def _flush(self) -> None:
        for consumer in self._consumers:
            consumer.flush()

    def _confirm(self) -> None:
        """CLS is answered after the FINs before it, so CLOSE_WAIT proves that the broker took them all."""
        for consumer in self._consumers:
            consumer.flush()
            consumer.sock.sendall(commands.CLS)
        for consumer in self._consumers:
            while not consumer.is_closing:
                consumer.receive()

    def close(self) -> None:
        for consumer in self._consumers:
            consumer.sock.close()


class Ending:
    """Says when a run is over, and ends one that has stopped moving."""

    def __init__(self, job: ConsumeJob, tally: Tally, start_ns: int) -> None:
        self._tally = tally
        self._expected = FOREVER_NS if job.expected is None else job.expected
        self._deadline_ns = FOREVER_NS if job.expected is not None else start_ns + int(job.seconds * 1e9)
        self._seen = -1
        self._moved_ns = start_ns

    def is_reached(self) -> bool:
        return self._tally.total >= self._expected or time.monotonic_ns() >= self._deadline_ns

    def note_idle(self) -> None:
        now_ns, total = time.monotonic_ns(), self._tally.total
        if total != self._seen:
            self._seen, self._moved_ns = total, now_ns
        elif now_ns - self._moved_ns > STALL_SECONDS * 10**9:
            raise LoadError(f"no message for {STALL_SECONDS} s after {total} of {self._expected}")
