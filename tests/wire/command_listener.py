"""A session that only listens, for the tests of the command reader."""

import struct
from collections.abc import Iterable
from itertools import pairwise

from nsqlake.wire.command_reader import Body, CommandReader, FinishRun, Item, Line, Messages
from nsqlake.wire.errors import ProtocolError

MAX_MSG, MAX_BODY = 1000, 5000
ID = b"0123456789abcdef"
Event = tuple[object, ...]


def new_reader() -> CommandReader:
    return CommandReader(max_msg_size=MAX_MSG, max_body_size=MAX_BODY)


def int32(number: int) -> bytes:
    return struct.pack(">i", number)


def sized(body: bytes) -> bytes:
    return int32(len(body)) + body


def pub(body: bytes, topic: bytes = b"t") -> bytes:
    return b"PUB %b\n" % topic + sized(body)


def mpub(bodies: Iterable[bytes], topic: bytes = b"t") -> bytes:
    records = [sized(body) for body in bodies]
    return b"MPUB %b\n" % topic + sized(int32(len(records)) + b"".join(records))


def fin(number: int) -> bytes:
    return b"FIN %016x\n" % number


def drain(reader: CommandReader) -> list[Item]:
    items = []
    while (item := reader.next_item()) is not None:
        items.append(item)
    return items


def items_of(data: bytes) -> list[Item]:
    reader = new_reader()
    reader.feed(data)
    return drain(reader)


def bodies_of(messages: Messages) -> list[bytes]:
    """The bodies, after checking that sizes, starts and records say the same."""
    count, size, records = messages.count, messages.record_size, messages.records
    starts = list(range(0, count * size + 1, size)) if messages.starts is None else list(messages.starts)
    assert bool(size) == (messages.starts is None)
    assert starts[0] == 0
    assert starts[-1] == len(records)
    assert len(starts) == count + 1
    for begin, end in pairwise(starts):
        assert records[begin : begin + 4] == int32(end - begin - 4)
    return [records[begin + 4 : end] for begin, end in pairwise(starts)]


class Listener:
    """Notes what a session would do, so that runs and single commands look alike."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.is_over = False
        self._lines: dict[bytes, list[bytes]] = {}

    def hear(self, item: Item) -> None:
        if isinstance(item, Line):
            self._hear_line(item)
        elif isinstance(item, FinishRun):
            for line in item.lines.removesuffix(b"\n").split(b"\n"):
                name, *params = line.removesuffix(b"\r").split(b" ")
                if not self.is_over:
                    self._hear_line(Line(name, params))
        elif isinstance(item, Body):
            self.events.append((item.name, item.data))
        else:
            bodies = bodies_of(item)
            parts = [[body] for body in bodies] if item.name == b"PUB" else [bodies]
            assert item.commands == len(parts)
            self.events += [(item.name, tuple(self._lines[item.name]), tuple(part)) for part in parts]

    def _hear_line(self, line: Line) -> None:
        if line.name in (b"PUB", b"MPUB", b"DPUB"):
            self._lines[line.name] = line.params
            return
        self.events.append((line.name, *line.params))
        # The session ends here, because such an id is a fatal error.
        self.is_over = line.name == b"FIN" and len((line.params or [b""])[0]) != 16


def listen(parts: Iterable[bytes]) -> tuple[list[Event], str]:
    """What is heard of the parts, and the error at the end if there is one."""
    reader, listener = new_reader(), Listener()
    try:
        for part in parts:
            reader.feed(part)
            while not listener.is_over and (item := reader.next_item()) is not None:
                listener.hear(item)
            if listener.is_over:
                return listener.events, ""
    except ProtocolError as error:
        return listener.events, str(error)
    return listener.events, str(reader.end_of_input() or "")


def error_of(data: bytes) -> str:
    """What the client is told, at once or when its input ends."""
    return listen([data])[1]
