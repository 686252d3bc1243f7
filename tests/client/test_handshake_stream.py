"""Ends that come together with the last answer, which a socket cannot be made to deliver on demand."""

import asyncio

import pytest

from nsqlake.client.config import ClientConfig
from nsqlake.client.errors import ConnectError
from nsqlake.client.handshake import Handshake
from nsqlake.client.handshake_stream import HandshakeStream
from tests.fakes.scripted_nsqd import response


class SinkTransport(asyncio.Transport):
    """Where writes go nowhere."""

    def write(self, data: object) -> None:
        pass


def begun() -> tuple[HandshakeStream, Handshake]:
    handshake = Handshake("h:4150", ClientConfig())
    stream = HandshakeStream("h:4150", handshake)
    stream.connection_made(SinkTransport())
    return stream, handshake


@pytest.mark.parametrize("has_eof", [True, False])
def test_a_connection_that_ended_with_its_last_answer_is_not_ready(has_eof: bool) -> None:
    async def scenario() -> None:
        stream, handshake = begun()
        stream.data_received(response(b"{}"))
        if has_eof:
            stream.eof_received()
        stream.connection_lost(None)

        with pytest.raises(ConnectError, match="closed by nsqd"):
            await stream.perform(None, "")
        assert handshake.is_done

    asyncio.run(scenario())


def test_an_error_of_the_socket_is_told() -> None:
    async def scenario() -> None:
        stream, _ = begun()
        stream.connection_lost(ConnectionResetError("reset"))

        with pytest.raises(ConnectError, match="connection lost: reset while waiting for IDENTIFY"):
            await stream.perform(None, "")

    asyncio.run(scenario())
