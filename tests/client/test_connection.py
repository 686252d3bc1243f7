"""A connection that is ready: frames, commands, heartbeats, and every way it may end."""

import asyncio
import logging
import socket
import struct
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from nsqlake.client.connection import Connection
from nsqlake.client.errors import ConnectionLostError, ServerError
from nsqlake.wire import commands
from nsqlake.wire.frames import HEARTBEAT_FRAME, OK_FRAME, FrameType, encode_frame
from tests.client.support import LOOPS, begin, run_on
from tests.fakes.loop_turns import next_turn, wait_until
from tests.fakes.recording_listener import RecordingListener
from tests.fakes.scripted_nsqd import ScriptedNsqd, error, message, response

Run = Callable[[Coroutine[Any, Any, None]], None]
READ_TIMEOUT_S = 60.0
WRITE_TIMEOUT_S = 1.0
ID = b"0123456789abcdef"


@pytest.fixture(params=LOOPS)
def run(request: pytest.FixtureRequest) -> Run:
    return lambda coroutine: run_on(request.param, coroutine)


# Frames -----------------------------------------------------------------------------------------------


def test_frames_reach_the_listener_in_runs_and_in_order(run: Run) -> None:
    async def scenario() -> None:
        async with ScriptedNsqd() as nsqd:
            talk = await begin(nsqd)

            talk.nsqd.send_raw(
                message(b"a")
                + message(b"b")
                + response(b"CLOSE_WAIT")
                + error("E_FIN_FAILED x")
                + message(b"c")
            )
            await talk.listener.wait("message", 3)

            assert talk.listener.events == ["message", "message", "response", "error", "message"]
            assert talk.listener.runs == [2, 1]
            assert [payload[26:] for payload in talk.listener.messages] == [b"a", b"b", b"c"]
            assert talk.connection.is_open

    run(scenario())


def test_frames_behind_the_last_answer_of_the_handshake_are_not_lost(run: Run) -> None:
    async def scenario() -> None:
        async with ScriptedNsqd(answers={"SUB": OK_FRAME + message(b"early") + HEARTBEAT_FRAME}) as nsqd:
            talk = await begin(nsqd)

            await talk.nsqd.wait_command("NOP")

            assert talk.listener.events == ["message", "heartbeat"]

    run(scenario())


def test_heartbeats_are_answered_here_and_are_no_responses(run: Run) -> None:
    async def scenario() -> None:
        async with ScriptedNsqd() as nsqd:
            talk = await begin(nsqd)

            talk.nsqd.send_raw(OK_FRAME + HEARTBEAT_FRAME + OK_FRAME)
            await talk.nsqd.wait_command("NOP")

            assert talk.listener.responses == [b"OK", b"OK"]
            assert talk.listener.events.count("heartbeat") == 1

    run(scenario())


def test_commands_are_sent_in_the_order_written(run: Run) -> None:
    async def scenario() -> None:
        async with ScriptedNsqd() as nsqd:
            talk = await begin(nsqd)
            before = talk.connection.bytes_out

            talk.connection.write(commands.rdy(5))
            talk.connection.write(commands.fin(ID) + commands.touch(ID))
            await talk.nsqd.wait_transcript("IDENTIFY", "SUB", "RDY 5", "FIN", "TOUCH")

            assert talk.connection.bytes_out - before == 6 + 21 + 23
            assert talk.connection.bytes_in > 0

    run(scenario())


def test_a_listener_that_fails_costs_its_connection_only(run: Run, caplog: pytest.LogCaptureFixture) -> None:
    def fail(_: Connection) -> None:
        raise RuntimeError("a bug")

    async def scenario() -> None:
        async with ScriptedNsqd() as nsqd:
            talk = await begin(nsqd, listener=RecordingListener(on_messages=fail))

            talk.nsqd.send_message(b"x")
            lost = await talk.listener.wait_lost()

            assert "internal error: RuntimeError('a bug')" in str(lost)

    run(scenario())
    assert [record.levelno for record in caplog.records if record.exc_info] == [logging.ERROR]


# Errors -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("code", ["E_FIN_FAILED", "E_REQ_FAILED", "E_TOUCH_FAILED", "E_PUB_FAILED"])
def test_errors_that_nsqd_survives_leave_the_connection_open(run: Run, code: str) -> None:
    async def scenario() -> None:
        async with ScriptedNsqd() as nsqd:
            talk = await begin(nsqd)

            talk.nsqd.send_error(f"{code} why")
            await talk.listener.wait("error")
            talk.timers.advance(WRITE_TIMEOUT_S)

            assert talk.connection.is_open
            assert (talk.listener.errors[0].code, talk.listener.errors[0].text) == (code, "why")

    run(scenario())


def test_a_fatal_error_is_why_the_connection_is_lost(run: Run) -> None:
    async def scenario() -> None:
        async with ScriptedNsqd() as nsqd:
            talk = await begin(nsqd)

            talk.nsqd.send_raw(error("E_BAD_TOPIC no") + OK_FRAME)
            talk.nsqd.close()
            lost = await talk.listener.wait_lost()

            assert talk.listener.events == ["error", "response", "lost"]
            assert isinstance(lost, ServerError)
            assert lost is talk.listener.errors[0]

    run(scenario())


def test_after_a_fatal_error_nothing_is_sent_and_the_end_comes_even_if_nsqd_forgets(run: Run) -> None:
    async def scenario() -> None:
        async with ScriptedNsqd() as nsqd:
            talk = await begin(nsqd)
            talk.nsqd.send_error("E_INVALID no")
            await talk.listener.wait("error")

            talk.connection.write(commands.rdy(1))
            assert not talk.connection.is_open
            talk.timers.advance(WRITE_TIMEOUT_S)
            await talk.listener.wait_lost()
            await talk.nsqd.wait_ended()

            assert talk.nsqd.transcript == ["IDENTIFY", "SUB"]

    run(scenario())


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (struct.pack(">ii", -1, 0), "frame size -1 is below 4"),
        (struct.pack(">ii", 2**31 - 1, 2), "frame of 2147483651 bytes exceeds the limit of 16777216"),
        (struct.pack(">ii", 30, 7), "unknown frame type 7"),
        (encode_frame(FrameType.MESSAGE, b"x" * 25), "message of 25 bytes is shorter than its header of 26"),
    ],
)
def test_a_malformed_frame_ends_the_connection(run: Run, data: bytes, reason: str) -> None:
    async def scenario() -> None:
        async with ScriptedNsqd() as nsqd:
            talk = await begin(nsqd)

            talk.nsqd.send_raw(message(b"good") + data)
            lost = await talk.listener.wait_lost()

            assert isinstance(lost, ConnectionLostError)
            assert lost.reason == f"broke the protocol: {reason}"
            assert talk.listener.events == ["message", "lost"]

    run(scenario())


def test_half_a_frame_is_never_delivered(run: Run) -> None:
    async def scenario() -> None:
        async with ScriptedNsqd() as nsqd:
            talk = await begin(nsqd)

            talk.nsqd.send_raw(message(b"whole") + message(b"half")[:-1])
            talk.nsqd.close()
            await talk.listener.wait_lost()

            assert talk.listener.events == ["message", "lost"]

    run(scenario())


# Ends -------------------------------------------------------------------------------------------------


def test_what_was_written_is_sent_before_we_close(run: Run) -> None:
    async def scenario() -> None:
        async with ScriptedNsqd() as nsqd:
            talk = await begin(nsqd)

            talk.connection.write(commands.fin(ID))
            await talk.connection.close()
            await talk.connection.close()
            await talk.nsqd.wait_ended()

            assert talk.nsqd.transcript == ["IDENTIFY", "SUB", "FIN"]
            assert talk.listener.losses == [None]
            assert not talk.connection.is_open
            assert talk.timers.waiting_count == 0

    run(scenario())


def test_nothing_is_delivered_once_we_close(run: Run) -> None:
    async def scenario() -> None:
        async with ScriptedNsqd() as nsqd:
            talk = await begin(nsqd)

            talk.nsqd.send_message(b"late")
            await talk.connection.close()

            assert talk.listener.events == ["lost"]

    run(scenario())


@pytest.mark.parametrize("unsent_bytes", [0, 16_000_000])
def test_closing_does_not_wait_for_ever(run: Run, unsent_bytes: int) -> None:
    async def scenario() -> None:
        async with ScriptedNsqd() as nsqd:
            talk = await begin(nsqd)
            talk.nsqd.pause_reading()
            talk.connection.write(bytes(unsent_bytes))

            closing = asyncio.ensure_future(talk.connection.close())
            await next_turn()
            assert not closing.done()
            talk.timers.advance(WRITE_TIMEOUT_S)
            await closing

            assert talk.listener.losses == [None]

    run(scenario())


def test_a_close_that_is_cancelled_still_closes(run: Run) -> None:
    async def scenario() -> None:
        async with ScriptedNsqd() as nsqd:
            talk = await begin(nsqd)

            closing = asyncio.ensure_future(talk.connection.close())
            await next_turn()
            closing.cancel()

            assert await talk.listener.wait_lost() is None

    run(scenario())


def test_an_abort_says_why_once(run: Run) -> None:
    async def scenario() -> None:
        async with ScriptedNsqd() as nsqd:
            talk = await begin(nsqd)
            reason = ConnectionLostError(talk.connection.address, "enough")

            talk.connection.abort(reason)
            talk.connection.abort()
            talk.connection.write(commands.nop())
            await talk.listener.wait_lost()
            talk.connection.abort()
            await next_turn()

            assert talk.listener.losses == [reason]
            await talk.connection.wait_writable()

    run(scenario())


def test_an_nsqd_that_closes_is_lost(run: Run) -> None:
    async def scenario() -> None:
        async with ScriptedNsqd() as nsqd:
            talk = await begin(nsqd)

            talk.nsqd.close()
            lost = await talk.listener.wait_lost()
            await talk.connection.close()

            assert str(lost) == f"{nsqd.address}: closed by nsqd"
            assert talk.listener.events == ["lost"]

    run(scenario())


def test_a_reset_is_told_as_such(run: Run) -> None:
    async def scenario() -> None:
        async with ScriptedNsqd() as nsqd:
            talk = await begin(nsqd)

            peer = talk.nsqd.writer.get_extra_info("socket")
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            talk.nsqd.abort()
            lost = await talk.listener.wait_lost()

            assert str(lost) == f"{nsqd.address}: connection reset by peer"

    run(scenario())


# Silence ----------------------------------------------------------------------------------------------


def test_an_nsqd_that_says_nothing_is_given_up(run: Run) -> None:
    async def scenario() -> None:
        async with ScriptedNsqd() as nsqd:
            talk = await begin(nsqd)
            talk.timers.advance(READ_TIMEOUT_S - 1)
            talk.nsqd.send_heartbeat()
            await talk.listener.wait("heartbeat")

            talk.timers.advance(READ_TIMEOUT_S)
            assert talk.connection.is_open
            talk.timers.advance(2.0)
            lost = await talk.listener.wait_lost()

            assert str(lost) == f"{nsqd.address}: heard nothing for 60s"

    run(scenario())


def test_two_heartbeats_may_be_missed(run: Run) -> None:
    async def scenario() -> None:
        async with ScriptedNsqd() as nsqd:
            talk = await begin(nsqd, read_timeout=50, heartbeat_interval=50)

            talk.timers.advance(99)
            assert talk.connection.is_open
            talk.timers.advance(3)
            await talk.listener.wait_lost()

    run(scenario())


def test_without_heartbeats_silence_is_no_sign(run: Run) -> None:
    async def scenario() -> None:
        async with ScriptedNsqd() as nsqd:
            talk = await begin(nsqd, subscription=None, heartbeat_interval=-1)

            talk.timers.advance(10_000)

            assert talk.connection.is_open

    run(scenario())


# A peer that does not read ----------------------------------------------------------------------------


def test_an_nsqd_that_takes_nothing_is_given_up(run: Run) -> None:
    async def scenario() -> None:
        async with ScriptedNsqd() as nsqd:
            talk = await begin(nsqd)
            talk.nsqd.pause_reading()
            talk.connection.write(bytes(16_000_000))
            await wait_until(lambda: not talk.connection._outgoing._is_scheduled)

            for _ in range(3):
                talk.timers.advance(WRITE_TIMEOUT_S)
                await next_turn()
            lost = await talk.listener.wait_lost()

            assert str(lost) == f"{nsqd.address}: nsqd took nothing for 1s"

    run(scenario())


def test_a_writer_waits_for_room_and_goes_on_when_nsqd_reads(run: Run) -> None:
    async def scenario() -> None:
        async with ScriptedNsqd() as nsqd:
            talk = await begin(nsqd, write_timeout=5)
            talk.nsqd.pause_reading()
            body = bytes(1_000_000)
            while talk.connection.is_writable:
                talk.connection.write(commands.pub("t", body))
                await next_turn()

            waiting = asyncio.ensure_future(talk.connection.wait_writable())
            await next_turn()
            assert not waiting.done()
            talk.nsqd.resume_reading()
            await waiting
            talk.connection.write(commands.cls())
            await talk.nsqd.wait_command("CLS")

            assert {len(c.body) for c in talk.nsqd.commands if c.name == "PUB"} == {1_000_000}

    run(scenario())


def test_a_writer_that_waits_is_released_when_the_connection_is_lost(run: Run) -> None:
    async def scenario() -> None:
        async with ScriptedNsqd() as nsqd:
            talk = await begin(nsqd)
            talk.nsqd.pause_reading()
            while talk.connection.is_writable:
                talk.connection.write(bytes(1_000_000))
                await next_turn()

            waiting = asyncio.ensure_future(talk.connection.wait_writable())
            await next_turn()
            talk.connection.abort()
            await waiting

            assert not talk.connection.is_open

    run(scenario())
