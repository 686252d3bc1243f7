"""A consumer on the test's own loop, for tests of how broker, client and clock go together."""

import asyncio
from collections.abc import Callable

from nsqlake.wire import commands
from nsqlake.wire.frame_reader import FrameReader
from nsqlake.wire.frames import HEARTBEAT, FrameType
from nsqlake.wire.received_message import Message, decode_message


class StreamConsumer(asyncio.Protocol):
    """Answers every message with what `answer` returns, and heartbeats with NOP."""

    def __init__(self, answer: Callable[[Message], bytes]) -> None:
        self._answer = answer
        self._frames = FrameReader()
        self.heartbeat_count = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        for frame in self._frames.feed(data):
            if frame.type is FrameType.MESSAGE:
                asyncio.get_running_loop().create_task(self._handle(decode_message(frame.payload)))
            elif frame.payload == HEARTBEAT:
                self.heartbeat_count += 1
                self.transport.write(commands.nop())

    async def _handle(self, message: Message) -> None:
        for _ in range(3):  # as a handler does that awaits something
            await asyncio.sleep(0)
        self.transport.write(self._answer(message))


async def consume(
    port: int, answer: Callable[[Message], bytes], *, topic: str = "orders", channel: str = "mail"
) -> StreamConsumer:
    loop = asyncio.get_running_loop()
    _, consumer = await loop.create_connection(lambda: StreamConsumer(answer), "127.0.0.1", port)
    consumer.transport.write(commands.MAGIC_V2 + commands.sub(topic, channel) + commands.rdy(10))
    return consumer
