"""The sample publisher and the sample consumer, each for a thread of its own."""

import random
import time
from threading import Event

from nsqlake.apps.demo.connection import Connection
from nsqlake.apps.demo.query_log import make_line
from nsqlake.wire import commands
from nsqlake.wire.errors import RemoteError
from nsqlake.wire.frames import CLOSE_WAIT, FrameType
from nsqlake.wire.received_message import decode_message

__all__ = ["CHANNEL", "TOPIC", "Consumer", "Generator"]

TOPIC = "query_logs"
CHANNEL = "demo"

_TICK_S = 0.1
_READY = 1_000
_CLOSE_LIMIT_S = 5.0


class Generator:
    """Publishes `rate` lines per second, a handful at a time."""

    def __init__(self, rate: int) -> None:
        self._rate = rate
        self._chance = random.Random()  # noqa: S311 - sample data
        self.published = 0
        self.refused = 0

    def run(self, address: tuple[str, int], stopping: Event) -> None:
        connection = Connection(address)
        try:
            started_s = time.monotonic()
            while not stopping.wait(_TICK_S):
                due = int((time.monotonic() - started_s) * self._rate) - self.published - self.refused
                if due > 0:
                    self._publish(connection, min(due, self._rate))
        finally:
            connection.close()

    def _publish(self, connection: Connection, count: int) -> None:
        now_s = int(time.time())
        lines = [make_line(self._chance, now_s) for _ in range(count)]
        try:
            connection.ask(commands.mpub(TOPIC, lines))
        except RemoteError as error:
            # A full disk, for instance: nsqd keeps the connection and takes messages again when it can.
            if error.code != "E_MPUB_FAILED":
                raise
            self.refused += count
        else:
            self.published += count


class Consumer:
    """Finishes every message it is sent."""

    def __init__(self) -> None:
        self.finished = 0

    def run(self, address: tuple[str, int], stopping: Event) -> None:
        connection = Connection(address)
        try:
            connection.ask(commands.sub(TOPIC, CHANNEL))
            connection.send(commands.rdy(_READY))
            while not stopping.is_set():
                self._take(connection)
            connection.send(commands.cls())
            deadline_s = time.monotonic() + _CLOSE_LIMIT_S
            while not self._take(connection) and time.monotonic() < deadline_s:
                pass
        finally:
            connection.close()

    def _take(self, connection: Connection) -> bool:
        """Finish what has come; whether nsqd said that nothing more will."""
        frames = connection.receive(_TICK_S)
        messages = [decode_message(frame.payload) for frame in frames if frame.type is FrameType.MESSAGE]
        if messages:
            connection.send(b"".join([commands.fin(message.id) for message in messages]))
            self.finished += len(messages)
        for frame in frames:
            if frame.type is FrameType.ERROR:
                raise RemoteError.decode(frame.payload)
        return any(frame.payload == CLOSE_WAIT for frame in frames)
