"""Handshakes over real sockets: layers that change, peers that do not play by the rules."""

import asyncio
import logging
import struct
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509

from nsqlake.client.errors import ConnectError, HandshakeRefusedError, InvalidArgumentError
from nsqlake.wire import commands
from nsqlake.wire.frames import HEARTBEAT_FRAME, OK_FRAME
from tests.client.support import LOOPS, SUBSCRIPTION, begin, open_connection, run_on
from tests.fakes.certificates import CertificateAuthority
from tests.fakes.loop_turns import next_turn
from tests.fakes.moved_timers import MovedTimers
from tests.fakes.scripted_nsqd import ScriptedNsqd, error, message, response

Run = Callable[[Coroutine[Any, Any, None]], None]
SILENCE = b""


@pytest.fixture(params=LOOPS)
def run(request: pytest.FixtureRequest) -> Run:
    return lambda coroutine: run_on(request.param, coroutine)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> CertificateAuthority:
    return CertificateAuthority(str(tmp_path_factory.mktemp("certificates")))


def tls_options(authority: CertificateAuthority) -> dict[str, Any]:
    return {"tls_v1": True, "tls_root_ca_file": authority.ca_file}


async def expect_refusal(nsqd: ScriptedNsqd, **options: Any) -> ConnectError:
    with pytest.raises(ConnectError) as caught:
        await begin(nsqd, **options)
    await (await nsqd.connection()).wait_ended()
    return caught.value


def test_a_consumer_identifies_and_subscribes(run: Run) -> None:
    async def scenario() -> None:
        async with ScriptedNsqd(identify={"max_rdy_count": 7, "version": "9"}) as nsqd:
            talk = await begin(nsqd, client_id="me")

            identify, sub = talk.nsqd.commands
            assert identify.fields["client_id"] == "me"
            assert sub.params == SUBSCRIPTION
            assert (talk.connection.server.max_rdy_count, talk.connection.server.version) == (7, "9")
            assert talk.connection.address == nsqd.address

    run(scenario())


@pytest.mark.parametrize("glues", [False, True])
@pytest.mark.parametrize("codec", ["snappy", "deflate"])
@pytest.mark.parametrize("is_encrypted", [False, True])
def test_layers_are_changed_without_losing_a_byte(
    run: Run, authority: CertificateAuthority, codec: str, glues: bool, is_encrypted: bool
) -> None:
    pair = authority.issue_server() if is_encrypted else None
    options = tls_options(authority) if is_encrypted else {}

    async def scenario() -> None:
        async with ScriptedNsqd(grants=[codec], glues=glues and not is_encrypted, pair=pair) as nsqd:
            talk = await begin(nsqd, **{codec: True}, **options)

            talk.connection.write(commands.rdy(5))
            await talk.nsqd.wait_transcript("IDENTIFY", "SUB", "RDY 5")
            talk.nsqd.send_message(b"x" * 300_000)
            await talk.listener.wait("message")
            talk.connection.write(commands.cls())
            await talk.listener.wait("response")

            assert len(talk.listener.messages[0]) == 26 + 300_000
            assert getattr(talk.connection.server, codec)
            await talk.connection.close()
            assert talk.listener.losses == [None]

    run(scenario())


@pytest.mark.parametrize("size", [1, 2, 7, 1000])
def test_the_handshake_may_come_in_pieces(run: Run, size: int) -> None:
    """Everything nsqd says is cut at the socket."""

    async def scenario() -> None:
        answer = response(b'{"max_rdy_count":5}')
        async with ScriptedNsqd(answers={"IDENTIFY": SILENCE}) as nsqd:
            beginning = asyncio.ensure_future(begin(nsqd, subscription=None))
            connection = await nsqd.ready_connection()
            for at in range(0, len(answer), size):
                connection.send_raw(answer[at : at + size])
                await next_turn()
            talk = await beginning

            assert talk.connection.server.max_rdy_count == 5

    run(scenario())


def test_heartbeats_in_between_are_answered_when_the_layers_are_settled(run: Run) -> None:
    async def scenario() -> None:
        answers = {"IDENTIFY": HEARTBEAT_FRAME + response(b"{}"), "SUB": HEARTBEAT_FRAME + OK_FRAME}
        async with ScriptedNsqd(answers=answers) as nsqd:
            talk = await begin(nsqd)
            await talk.nsqd.wait_command("NOP", 2)

            assert [c.name for c in talk.nsqd.commands] == ["IDENTIFY", "NOP", "SUB", "NOP"]

    run(scenario())


def test_the_secret_is_sent_where_it_is_required_only(run: Run) -> None:
    async def scenario() -> None:
        async with ScriptedNsqd(identify={"auth_required": True}) as strict, ScriptedNsqd() as lax:
            guarded = await begin(strict, auth_secret="hush")
            await begin(lax, auth_secret="hush")

            assert guarded.nsqd.commands[1].body == b"hush"
            assert guarded.connection.server.identity == "me"
            assert [str(command) for command in lax.commands] == ["IDENTIFY", "SUB"]

    run(scenario())


@pytest.mark.parametrize(
    ("answers", "reason"),
    [
        ({"IDENTIFY": error("E_BAD_BODY IDENTIFY no")}, "E_BAD_BODY IDENTIFY no"),
        ({"IDENTIFY": message(b"x")}, "a message instead of IDENTIFY"),
        ({"IDENTIFY": struct.pack(">ii", -1, 0)}, "frame size -1 is below 4 while waiting for IDENTIFY"),
        ({"IDENTIFY": struct.pack(">ii", 30, 9)}, "unknown frame type 9 while waiting for IDENTIFY"),
        (
            {"IDENTIFY": struct.pack(">ii", 2**31 - 1, 0)},
            "frame of 2147483651 bytes exceeds the limit of 262144 while waiting for IDENTIFY",
        ),
        ({"SUB": error("E_BAD_CHANNEL no")}, "E_BAD_CHANNEL no"),
        ({"SUB": response(b"CLOSE_WAIT")}, "'CLOSE_WAIT' instead of SUB"),
        ({"SUB": bytes(5_000_000)}, "frame size 0 is below 4 while waiting for SUB"),
    ],
)
def test_a_wrong_answer_ends_the_handshake_and_the_connection(
    run: Run, answers: dict[str, bytes], reason: str
) -> None:
    async def scenario() -> None:
        async with ScriptedNsqd(answers=answers) as nsqd:
            assert (await expect_refusal(nsqd)).reason == reason

    run(scenario())


def test_a_flood_during_the_handshake_is_cut_off(run: Run) -> None:
    async def scenario() -> None:
        async with ScriptedNsqd(answers={"IDENTIFY": HEARTBEAT_FRAME * 40_000}) as nsqd:
            assert "too much data" in (await expect_refusal(nsqd)).reason

    run(scenario())


@pytest.mark.parametrize(("name", "step"), [("IDENTIFY", "IDENTIFY"), ("AUTH", "AUTH"), ("SUB", "SUB")])
def test_an_nsqd_that_does_not_answer_is_given_up(run: Run, name: str, step: str) -> None:
    async def scenario() -> None:
        async with ScriptedNsqd(identify={"auth_required": True}, answers={name: SILENCE}) as nsqd:
            timers = MovedTimers()
            opening = asyncio.ensure_future(
                open_connection(
                    nsqd.address, None, timers, SUBSCRIPTION, auth_secret="x", handshake_timeout=5
                )
            )
            connection = await nsqd.ready_connection(after=name)

            timers.advance(5)
            with pytest.raises(ConnectError, match=f"timed out waiting for {step}"):
                await opening
            await connection.wait_ended()

    run(scenario())


def test_an_nsqd_that_closes_in_the_handshake_is_a_connect_error(run: Run) -> None:
    async def scenario() -> None:
        async with ScriptedNsqd(answers={"SUB": SILENCE}) as nsqd:
            opening = asyncio.ensure_future(begin(nsqd))
            (await nsqd.ready_connection(after="SUB")).close()

            with pytest.raises(ConnectError, match="closed by nsqd while waiting for SUB"):
                await opening

    run(scenario())


def test_an_error_frame_is_read_although_nsqd_closed_behind_it(run: Run) -> None:
    async def scenario() -> None:
        async with ScriptedNsqd(answers={"SUB": SILENCE}) as nsqd:
            opening = asyncio.ensure_future(begin(nsqd))
            connection = await nsqd.ready_connection(after="SUB")
            connection.send_error("E_SUB_FAILED full")
            connection.close()

            with pytest.raises(HandshakeRefusedError, match="E_SUB_FAILED full"):
                await opening

    run(scenario())


def test_a_cancelled_connect_closes_its_socket(run: Run) -> None:
    async def scenario() -> None:
        async with ScriptedNsqd(answers={"IDENTIFY": SILENCE}) as nsqd:
            opening = asyncio.ensure_future(begin(nsqd))
            connection = await nsqd.ready_connection()

            opening.cancel()
            with pytest.raises(asyncio.CancelledError):
                await opening
            await connection.wait_ended()

    run(scenario())


def test_bad_arguments_are_refused_before_anything_is_opened(run: Run) -> None:
    async def scenario() -> None:
        async with ScriptedNsqd() as nsqd:
            with pytest.raises(InvalidArgumentError, match="is not valid"):
                await begin(nsqd, subscription=("a b", "c"))
            with pytest.raises(InvalidArgumentError, match="must be host:port"):
                await open_connection("host:x")

            assert nsqd.connections == []

    run(scenario())


def test_compression_that_is_not_granted_is_a_warning(run: Run, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        async with ScriptedNsqd() as nsqd:
            await begin(nsqd, snappy=True)

    run(scenario())
    warnings = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert [text.partition(": ")[2] for text in warnings] == ["snappy was asked for and not granted"]


def test_secrets_are_not_logged(run: Run, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        async with ScriptedNsqd(identify={"auth_required": True}) as nsqd:
            talk = await begin(nsqd, auth_secret="hush-hush")
            await talk.connection.close()

    caplog.set_level(logging.DEBUG)
    run(scenario())
    assert "identity=me" in caplog.text
    assert "hush-hush" not in caplog.text


# TLS --------------------------------------------------------------------------------------------------


def test_a_certificate_of_a_stranger_is_refused_for_good(run: Run, authority: CertificateAuthority) -> None:
    async def scenario() -> None:
        async with ScriptedNsqd(pair=authority.issue_server()) as nsqd:
            refusal = await expect_refusal(nsqd, tls_v1=True)

            assert isinstance(refusal, HandshakeRefusedError)
            assert (refusal.code, refusal.permanent) == ("TLS_FAILED", True)
            assert "certificate verify failed" in refusal.text

    run(scenario())


def test_the_name_is_verified_and_can_be_overridden(run: Run, authority: CertificateAuthority) -> None:
    pair = authority.issue_server("elsewhere", [x509.DNSName("nsqd.example.com")])

    async def scenario() -> None:
        async with ScriptedNsqd(pair=pair) as nsqd:
            refusal = await expect_refusal(nsqd, **tls_options(authority))
            assert "IP address mismatch" in refusal.reason

            talk = await begin(nsqd, server_hostname="nsqd.example.com", **tls_options(authority))
            assert talk.connection.server.tls

    run(scenario())


def test_over_a_unix_socket_the_name_is_localhost(
    run: Run, authority: CertificateAuthority, tmp_path: Path
) -> None:
    async def scenario() -> None:
        async with ScriptedNsqd(pair=authority.issue_server(), host=str(tmp_path / "nsqd.sock")) as nsqd:
            talk = await begin(nsqd, **tls_options(authority))

            assert talk.connection.server.tls
            assert talk.connection.address.startswith("unix:///")

    run(scenario())


def test_a_file_that_is_missing_is_a_refusal_for_good(run: Run) -> None:
    async def scenario() -> None:
        async with ScriptedNsqd() as nsqd:
            with pytest.raises(HandshakeRefusedError, match="tls_root_ca_file") as caught:
                await begin(nsqd, tls_v1=True, tls_root_ca_file="/nowhere/ca.pem")

            assert caught.value.permanent
            assert nsqd.connections == []

    run(scenario())


def test_bytes_in_clear_where_tls_begins_are_refused(run: Run) -> None:
    async def scenario() -> None:
        answer = response(b'{"tls_v1":true}') + OK_FRAME
        async with ScriptedNsqd(answers={"IDENTIFY": answer}) as nsqd:
            refusal = await expect_refusal(nsqd, tls_v1=True, tls_insecure_skip_verify=True)

            assert refusal.reason == "data in clear where TLS begins"

    run(scenario())


def test_a_peer_that_speaks_no_tls_is_refused(run: Run) -> None:
    async def scenario() -> None:
        async with ScriptedNsqd(answers={"IDENTIFY": response(b'{"tls_v1":true}')}) as nsqd:
            opening = asyncio.ensure_future(begin(nsqd, tls_v1=True, tls_insecure_skip_verify=True))
            connection = await nsqd.ready_connection()
            await next_turn()
            connection.send_raw(OK_FRAME * 10)

            with pytest.raises(ConnectError) as caught:
                await opening
            assert caught.value.address == nsqd.address

    run(scenario())


def test_a_tls_handshake_that_never_ends_is_given_up(run: Run) -> None:
    async def scenario() -> None:
        async with ScriptedNsqd(answers={"IDENTIFY": response(b'{"tls_v1":true}')}) as nsqd:
            timers = MovedTimers()
            opening = asyncio.ensure_future(
                open_connection(nsqd.address, None, timers, tls_v1=True, tls_insecure_skip_verify=True)
            )
            connection = await nsqd.ready_connection()
            connection.pause_reading()
            await next_turn()

            timers.advance(10)
            with pytest.raises(ConnectError, match="timed out waiting for"):
                await opening

    run(scenario())
