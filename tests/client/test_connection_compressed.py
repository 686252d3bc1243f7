"""Compressed and encrypted streams under pressure: bombs, damage, large payloads, peers that do not read."""

import asyncio
import random
import struct
import tracemalloc
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from nsqlake.client.connection import DECODED_PIECE_BYTES, DECODED_TURN_BYTES
from nsqlake.client.errors import ConnectionLostError
from nsqlake.wire import commands
from nsqlake.wire.frames import OK_FRAME, FrameType, encode_frame
from tests.client.support import LOOPS, begin, run_on
from tests.fakes.certificates import CertificateAuthority
from tests.fakes.loop_turns import next_turn, wait_until
from tests.fakes.recording_listener import RecordingListener
from tests.fakes.scripted_nsqd import ScriptedNsqd, message

Run = Callable[[Coroutine[Any, Any, None]], None]
CODECS = ["snappy", "deflate"]
MIB = 1024 * 1024


@pytest.fixture(params=LOOPS)
def run(request: pytest.FixtureRequest) -> Run:
    return lambda coroutine: run_on(request.param, coroutine)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> CertificateAuthority:
    return CertificateAuthority(str(tmp_path_factory.mktemp("certificates")))


class CountingListener(RecordingListener):
    """Counts bytes instead of keeping them, and the most that came in one turn of the loop."""

    def __init__(self) -> None:
        super().__init__()
        self.received_bytes = self.most_in_a_turn = self._in_this_turn = 0

    def messages_received(self, connection: Any, payloads: list[bytes]) -> None:
        if not self._in_this_turn:
            asyncio.get_running_loop().call_soon(self._end_turn)
        size = sum(len(payload) for payload in payloads)
        self.received_bytes += size
        self._in_this_turn += size
        self.most_in_a_turn = max(self.most_in_a_turn, self._in_this_turn)
        if self.received_bytes > 11 * MIB and not self.events:
            self.events.append("enough")

    def _end_turn(self) -> None:
        self._in_this_turn = 0


@pytest.mark.parametrize("codec", CODECS)
def test_a_bomb_is_decoded_bit_by_bit(run: Run, codec: str) -> None:
    bomb = message(bytes(100_000)) * 120  # 11 MiB from half a MiB or less

    async def scenario() -> None:
        async with ScriptedNsqd(grants=[codec]) as nsqd:
            listener = CountingListener()
            talk = await begin(nsqd, listener=listener, **{codec: True})
            encoder = talk.nsqd._encoder
            assert encoder is not None
            packed = encoder.encode(bomb)
            tracemalloc.start()

            talk.nsqd.send_wire(packed)
            await listener.wait("enough")

            _, peak_bytes = tracemalloc.get_traced_memory()
            tracemalloc.stop()
            assert peak_bytes < 8 * MIB
            # uvloop may read once more between two calls of ours.
            assert listener.most_in_a_turn <= 2 * (DECODED_TURN_BYTES + DECODED_PIECE_BYTES)
            assert talk.connection.is_open

    run(scenario())


@pytest.mark.parametrize("codec", CODECS)
def test_a_frame_that_would_be_too_large_is_refused_before_it_is_decoded(run: Run, codec: str) -> None:
    async def scenario() -> None:
        async with ScriptedNsqd(grants=[codec]) as nsqd:
            talk = await begin(nsqd, max_frame_bytes=MIB, **{codec: True})
            tracemalloc.start()

            talk.nsqd.send_raw(struct.pack(">ii", 2 * MIB, 2) + bytes(2 * MIB))
            lost = await talk.listener.wait_lost()

            _, peak_bytes = tracemalloc.get_traced_memory()
            tracemalloc.stop()
            assert "exceeds the limit of 1048576" in str(lost)
            assert peak_bytes < 12 * MIB  # the fake's own copies are in it

    run(scenario())


@pytest.mark.parametrize("codec", CODECS)
def test_a_damaged_stream_ends_the_connection(run: Run, codec: str) -> None:
    async def scenario() -> None:
        async with ScriptedNsqd(grants=[codec]) as nsqd:
            talk = await begin(nsqd, **{codec: True})

            talk.nsqd.send_wire(b"\x07\xff\xff\xff" * 10)
            lost = await talk.listener.wait_lost()

            assert isinstance(lost, ConnectionLostError)
            assert "broke the protocol" in lost.reason

    run(scenario())


@pytest.mark.parametrize("codec", CODECS)
def test_frames_before_the_damage_are_delivered(run: Run, codec: str) -> None:
    async def scenario() -> None:
        async with ScriptedNsqd(grants=[codec]) as nsqd:
            talk = await begin(nsqd, **{codec: True})

            talk.nsqd.send_raw(message(b"good") + encode_frame(FrameType.MESSAGE, b"short"))
            await talk.listener.wait_lost()

            assert talk.listener.events == ["message", "lost"]

    run(scenario())


@pytest.mark.parametrize("codec", CODECS)
def test_frames_behind_the_last_answer_of_the_handshake_are_not_lost(run: Run, codec: str) -> None:
    async def scenario() -> None:
        async with ScriptedNsqd(grants=[codec], answers={"SUB": OK_FRAME + message(b"early")}) as nsqd:
            talk = await begin(nsqd, **{codec: True})

            assert talk.listener.events == ["message"]

    run(scenario())


@pytest.mark.parametrize("codec", CODECS)
def test_large_payloads_go_both_ways(run: Run, codec: str) -> None:
    body = bytes(range(256)) * 2000 + random.Random(0).randbytes(600_000)

    async def scenario() -> None:
        async with ScriptedNsqd(grants=[codec]) as nsqd:
            talk = await begin(nsqd, **{codec: True})

            talk.connection.write(commands.pub("t", body))
            talk.nsqd.send_message(body)
            await talk.listener.wait("message")
            received = await talk.nsqd.wait_command("PUB")

            assert received.body == body
            assert talk.listener.messages[0][26:] == body

    run(scenario())


def test_an_encrypted_peer_that_takes_nothing_is_given_up(run: Run, authority: CertificateAuthority) -> None:
    async def scenario() -> None:
        async with ScriptedNsqd(pair=authority.issue_server()) as nsqd:
            talk = await begin(nsqd, tls_v1=True, tls_root_ca_file=authority.ca_file)
            talk.nsqd.pause_reading()
            talk.connection.write(bytes(16_000_000))
            await next_turn()

            for _ in range(4):
                await next_turn()
                talk.timers.advance(1.0)
            lost = await talk.listener.wait_lost()

            assert str(lost) == f"{nsqd.address}: nsqd took nothing for 1s"

    run(scenario())


def test_an_encrypted_writer_goes_on_when_the_peer_reads_again(
    run: Run, authority: CertificateAuthority
) -> None:
    async def scenario() -> None:
        async with ScriptedNsqd(pair=authority.issue_server()) as nsqd:
            talk = await begin(nsqd, tls_v1=True, tls_root_ca_file=authority.ca_file)
            talk.nsqd.pause_reading()
            written = 0
            while talk.connection.is_writable:
                talk.connection.write(commands.pub("t", bytes(1_000_000)))
                written += 1
                await next_turn()

            talk.nsqd.resume_reading()
            await talk.connection.wait_writable()
            talk.connection.write(commands.cls())
            await talk.nsqd.wait_command("CLS")

            assert talk.nsqd.count("PUB") == written

    run(scenario())


def test_a_close_sends_everything_through_tls_and_codec(run: Run, authority: CertificateAuthority) -> None:
    async def scenario() -> None:
        async with ScriptedNsqd(pair=authority.issue_server(), grants=["snappy"]) as nsqd:
            talk = await begin(nsqd, tls_v1=True, tls_root_ca_file=authority.ca_file, snappy=True)

            for _ in range(100):
                talk.connection.write(commands.pub("t", bytes(range(256)) * 40))
            await talk.connection.close()
            await talk.nsqd.wait_ended()

            assert talk.nsqd.count("PUB") == 100
            assert talk.listener.losses == [None]

    run(scenario())


def test_frames_wait_for_their_turn_in_the_order_they_came(run: Run) -> None:
    async def scenario() -> None:
        async with ScriptedNsqd(grants=["deflate"]) as nsqd:
            talk = await begin(nsqd, deflate=True)

            talk.nsqd.send_raw(b"".join(message(b"%07d" % number + bytes(9993)) for number in range(500)))
            await next_turn()
            talk.nsqd.send_message(b"%07d" % 500)
            await wait_until(lambda: len(talk.listener.messages) == 501)

            assert [int(payload[26:33]) for payload in talk.listener.messages] == list(range(501))

    run(scenario())
