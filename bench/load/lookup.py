"""nsqds as an nsqlookupd sees them, and consumers that ask it; both paced by a schedule."""

import asyncio
import itertools
import json
import struct
import time
from collections.abc import Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection

import uvloop

from bench.load.connection import Address
from bench.load.errors import LoadError

OK = b"\0\0\0\2OK"
BATCH = 200
PING_SECONDS = 1.0
ASKING_CONNECTIONS = 8


@dataclass(frozen=True)
class Size:
    """What there is to be registered."""

    nodes: int
    topics: int
    channels: int

    def commands(self) -> Iterator[bytes]:
        """Of one node, as nsqd sends them after it connected."""
        for topic in range(self.topics):
            for channel in range(self.channels):
                yield b"REGISTER bench-topic-%d channel-%d\n" % (topic, channel)

    def topic(self, number: int) -> str:
        return f"bench-topic-{number % self.topics}"


def play_nodes(address: Address, size: Size, registers_per_second: int, control: Connection) -> None:
    """In a process of its own: register everything, tell how long it took, then go on until told to stop."""
    uvloop.run(_play_nodes(address, size, registers_per_second, control))


async def _play_nodes(address: Address, size: Size, registers_per_second: int, control: Connection) -> None:
    nodes = [await _Node.connect(address, number) for number in range(size.nodes)]
    began = time.monotonic()
    await asyncio.gather(*(node.register_all(size) for node in nodes))
    control.send(time.monotonic() - began)
    rate = registers_per_second / size.nodes
    began = time.monotonic()
    tasks: list[asyncio.Future[None]] = [asyncio.ensure_future(node.stay(size, rate)) for node in nodes]
    stopped = asyncio.get_running_loop().run_in_executor(None, control.recv)
    done, _ = await asyncio.wait({*tasks, stopped}, return_when=asyncio.FIRST_COMPLETED)
    for task in tasks:
        task.cancel()
    for each in done:
        each.result()
    control.send(sum(node.registered for node in nodes) / (time.monotonic() - began))


class _Node:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self.registered = 0

    @classmethod
    async def connect(cls, address: Address, number: int) -> "_Node":
        node = cls(*await asyncio.open_connection(*address))
        fields = {"broadcast_address": f"node-{number}", "hostname": f"node-{number}", "version": "1.3.0"}
        body = json.dumps({**fields, "tcp_port": 4150, "http_port": 4151}).encode()
        node._writer.write(b"  V1IDENTIFY\n" + struct.pack(">i", len(body)) + body)
        (length,) = struct.unpack(">i", await node._reader.readexactly(4))
        await node._reader.readexactly(length)
        return node

    async def register_all(self, size: Size) -> None:
        commands = size.commands()
        while batch := list(itertools.islice(commands, BATCH)):
            await self._ask(b"".join(batch), len(batch))

    async def stay(self, size: Size, rate: float) -> None:
        """Ping, and register again one by one, as a node does that lost its connection."""
        due = time.monotonic()
        ping_due = due + PING_SECONDS
        for command in itertools.cycle(size.commands()):
            due += 1 / rate
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            await self._ask(command, 1)
            self.registered += 1
            if time.monotonic() >= ping_due:
                await self._ask(b"PING\n", 1)
                ping_due += PING_SECONDS

    async def _ask(self, commands: bytes, count: int) -> None:
        self._writer.write(commands)
        replies = await self._reader.readexactly(count * len(OK))
        if replies != OK * count:
            raise LoadError(f"nsqlookupd answered {replies[:80]!r}")


async def ask_lookups(address: Address, size: Size, per_second: int, seconds: float) -> list[float]:
    """Seconds from the time a question was due to its answer, for each."""
    count = int(per_second * seconds)
    began = time.monotonic() + 0.05
    shares = [range(first, count, ASKING_CONNECTIONS) for first in range(ASKING_CONNECTIONS)]
    found = await asyncio.gather(*(_ask_share(address, size, share, began, per_second) for share in shares))
    return [latency for share in found for latency in share]


async def _ask_share(
    address: Address, size: Size, numbers: range, began: float, per_second: int
) -> list[float]:
    reader, writer = await asyncio.open_connection(*address)
    latencies = []
    for number in numbers:
        due = began + number / per_second
        await asyncio.sleep(max(0.0, due - time.monotonic()))
        target = f"/lookup?topic={size.topic(number * 7919)}"
        writer.write(f"GET {target} HTTP/1.1\r\nHost: bench\r\n\r\n".encode())
        head = await reader.readuntil(b"\r\n\r\n")
        if b" 200 " not in head[:16]:
            raise LoadError(f"GET {target}: {head[:40]!r}")
        await _skip_body(reader, head)
        latencies.append(time.monotonic() - due)
    writer.close()
    return latencies


async def _skip_body(reader: asyncio.StreamReader, head: bytes) -> None:
    lengths = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
    if lengths:
        await reader.readexactly(int(lengths[0].partition(b":")[2]))
        return
    while size := int(await reader.readuntil(b"\r\n"), 16):  # chunked, as Go sends what is large
        await reader.readexactly(size + 2)
    await reader.readexactly(2)
