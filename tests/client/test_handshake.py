import json
from collections.abc import Mapping
from typing import Any

import pytest

from nsqlake.client.config import ClientConfig
from nsqlake.client.errors import ConnectError, HandshakeRefusedError, InvalidArgumentError
from nsqlake.client.handshake import Handshake, Next, Step, Upgrade
from nsqlake.wire.commands import nop
from nsqlake.wire.frames import HEARTBEAT, OK, FrameType

NOTHING = Next()
SUBSCRIPTION = ("orders", "archive")
SUB = b"SUB orders archive\n"
AUTH = b"AUTH\n\x00\x00\x00\x06secret"
AUTH_ANSWER = b'{"identity":"me","identity_url":"http://me","permission_count":2}'


def answer(**fields: Any) -> bytes:
    return json.dumps({"max_rdy_count": 100, "version": "1.3.0", **fields}).encode()


def begun(subscription: tuple[str, str] | None = None, **options: Any) -> Handshake:
    handshake = Handshake("h:4150", ClientConfig(**options), subscription)
    handshake.begin()
    return handshake


def respond(handshake: Handshake, payload: bytes) -> Next:
    return handshake.receive(FrameType.RESPONSE, payload)


def sent_fields(handshake: Handshake) -> Mapping[str, Any]:
    magic, line, body = handshake.begin().partition(b"IDENTIFY\n")
    assert (magic, line) == (b"  V2", b"IDENTIFY\n")
    assert int.from_bytes(body[:4], "big") == len(body) - 4
    return json.loads(body[4:])


def test_identify_says_who_we_are_and_what_we_want() -> None:
    config = ClientConfig(
        client_id="c", hostname="h", user_agent="u", heartbeat_interval=5, output_buffer_timeout=-1
    )

    fields = sent_fields(Handshake("h:4150", config))

    assert fields == {
        "client_id": "c",
        "hostname": "h",
        "user_agent": "u",
        "feature_negotiation": True,
        "heartbeat_interval": 5000,
        "output_buffer_size": 16_384,
        "output_buffer_timeout": -1,
        "tls_v1": False,
        "snappy": False,
        "deflate": False,
        "deflate_level": 6,
        "sample_rate": 0,
        "msg_timeout": 0,
    }


def test_topology_and_milliseconds_are_sent_when_set() -> None:
    config = ClientConfig(topology_region="r", topology_zone="z", msg_timeout=0.0015, heartbeat_interval=-1)

    fields = sent_fields(Handshake("h:4150", config))

    assert (fields["topology_region"], fields["topology_zone"]) == ("r", "z")
    assert (fields["msg_timeout"], fields["heartbeat_interval"]) == (2, -1)


def test_a_producer_is_ready_after_identify() -> None:
    handshake = begun()

    assert respond(handshake, answer(msg_timeout=5000, max_msg_timeout=9000)) == NOTHING
    assert handshake.is_done
    assert (handshake.server.max_rdy_count, handshake.server.version) == (100, "1.3.0")
    assert (handshake.server.msg_timeout_s, handshake.server.max_msg_timeout_s) == (5.0, 9.0)


def test_an_nsqd_that_says_ok_negotiates_nothing() -> None:
    handshake = begun()

    respond(handshake, OK)

    assert handshake.is_done
    assert (handshake.server.max_rdy_count, handshake.server.msg_timeout_s) == (2500, 60.0)
    assert handshake.server.max_msg_timeout_s == 900.0


def test_a_consumer_subscribes_and_waits_for_the_ok() -> None:
    handshake = begun(SUBSCRIPTION)

    assert respond(handshake, answer()) == Next(data=SUB)
    assert not handshake.is_done
    assert respond(handshake, OK) == NOTHING
    assert handshake.is_done


@pytest.mark.parametrize(("codec", "upgrade"), [("snappy", Upgrade.SNAPPY), ("deflate", Upgrade.DEFLATE)])
def test_everything_together_comes_in_its_order(codec: str, upgrade: Upgrade) -> None:
    handshake = begun(SUBSCRIPTION, tls_v1=True, auth_secret="secret", **{codec: True})

    assert respond(handshake, answer(tls_v1=True, auth_required=True, **{codec: True})) == Next(Upgrade.TLS)
    assert respond(handshake, OK) == Next(upgrade)
    assert respond(handshake, OK) == Next(data=AUTH)
    assert respond(handshake, AUTH_ANSWER) == Next(data=SUB)
    assert respond(handshake, OK) == NOTHING
    assert handshake.is_done
    assert (handshake.server.identity, handshake.server.permission_count) == ("me", 2)


def test_the_secret_stays_here_when_nsqd_does_not_ask() -> None:
    handshake = begun(SUBSCRIPTION, auth_secret="secret")

    assert respond(handshake, answer(auth_required=False)) == Next(data=SUB)


def test_without_a_secret_nothing_is_tried_where_one_is_required() -> None:
    handshake = begun(SUBSCRIPTION)

    with pytest.raises(HandshakeRefusedError, match="no auth_secret is set") as caught:
        respond(handshake, answer(auth_required=True))

    assert (caught.value.code, caught.value.permanent) == ("AUTH_SECRET_MISSING", True)


def test_tls_that_is_not_granted_is_an_error() -> None:
    with pytest.raises(HandshakeRefusedError) as caught:
        respond(begun(tls_v1=True), answer(tls_v1=False))

    assert (caught.value.code, caught.value.permanent) == ("TLS_NOT_GRANTED", True)


def test_tls_may_be_optional_and_compression_is() -> None:
    handshake = begun(tls_v1=True, tls_required=False, snappy=True)

    respond(handshake, answer())

    assert handshake.is_done
    assert handshake.warnings == ["TLS was asked for and not granted", "snappy was asked for and not granted"]


@pytest.mark.parametrize("feature", ["tls_v1", "snappy", "deflate"])
def test_what_was_not_asked_for_cannot_be_granted(feature: str) -> None:
    with pytest.raises(ConnectError, match="granted, but not asked for"):
        respond(begun(), answer(**{feature: True}))


@pytest.mark.parametrize("step", list(Step)[:-1])
def test_an_error_frame_ends_the_handshake_with_the_words_of_nsqd(step: Step) -> None:
    handshake = begun(SUBSCRIPTION)
    handshake.step = step

    with pytest.raises(HandshakeRefusedError) as caught:
        handshake.receive(FrameType.ERROR, b"E_BAD_BODY IDENTIFY heartbeat interval (100) is invalid")

    assert str(caught.value) == "h:4150: E_BAD_BODY IDENTIFY heartbeat interval (100) is invalid"
    assert caught.value.permanent


def test_a_full_channel_may_have_room_later() -> None:
    with pytest.raises(HandshakeRefusedError) as caught:
        begun(SUBSCRIPTION).receive(FrameType.ERROR, b"E_SUB_FAILED too many")

    assert not caught.value.permanent


def test_a_message_has_no_place_in_a_handshake() -> None:
    with pytest.raises(ConnectError, match="a message instead of IDENTIFY"):
        begun().receive(FrameType.MESSAGE, b"x" * 30)


@pytest.mark.parametrize("step", [Step.TLS, Step.COMPRESSION, Step.SUBSCRIBE])
def test_only_ok_confirms(step: Step) -> None:
    handshake = begun(SUBSCRIPTION)
    handshake.step = step

    with pytest.raises(ConnectError, match=f"'CLOSE_WAIT' instead of {step.value}"):
        respond(handshake, b"CLOSE_WAIT")


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"no json",
        b"[]",
        b"null",
        b'{"max_rdy_count":"many"}',
        b'{"tls_v1":1}',
        b'{"x":' + b"[" * 100_000,
        b'{"version":"\xff"}',
    ],
)
def test_an_answer_that_cannot_be_read_ends_the_handshake(payload: bytes) -> None:
    with pytest.raises(ConnectError, match="the answer to IDENTIFY cannot be read"):
        respond(begun(), payload)


def test_an_answer_to_auth_that_cannot_be_read_ends_the_handshake() -> None:
    handshake = begun(auth_secret="secret")
    respond(handshake, answer(auth_required=True))

    with pytest.raises(ConnectError, match="the answer to AUTH cannot be read"):
        respond(handshake, OK)


def test_unknown_fields_and_senseless_numbers_change_nothing() -> None:
    handshake = begun()

    respond(handshake, answer(new={"a": [1]}, max_rdy_count=-1, msg_timeout=0, deflate_level=99))

    server = handshake.server
    assert (server.max_rdy_count, server.msg_timeout_s, server.deflate_level) == (2500, 60.0, 6)


def test_what_nsqd_says_of_itself_cannot_forge_a_log_line() -> None:
    handshake = begun(auth_secret="secret")
    respond(handshake, answer(version="1\nERROR", auth_required=True))
    respond(handshake, json.dumps({"identity": "me\r" + "x" * 1000}).encode())

    assert handshake.server.version == "1\\x0aERROR"
    assert len(handshake.server.identity) == 256


def test_a_heartbeat_before_the_layers_are_settled_is_answered_after_it() -> None:
    handshake = begun(SUBSCRIPTION, tls_v1=True, snappy=True)

    assert respond(handshake, HEARTBEAT) == NOTHING
    assert respond(handshake, answer(tls_v1=True, snappy=True)) == Next(Upgrade.TLS)
    assert respond(handshake, HEARTBEAT) == NOTHING
    assert respond(handshake, OK) == Next(Upgrade.SNAPPY)
    assert respond(handshake, HEARTBEAT) == NOTHING
    assert respond(handshake, OK) == Next(data=nop() + SUB)
    assert respond(handshake, HEARTBEAT) == Next(data=nop())
    assert respond(handshake, OK) == NOTHING


def test_a_producer_answers_an_early_heartbeat_too() -> None:
    handshake = begun()
    respond(handshake, HEARTBEAT)

    assert respond(handshake, answer()) == Next(data=nop())
    assert handshake.is_done


def test_a_heartbeat_during_auth_is_answered_at_once() -> None:
    handshake = begun(auth_secret="secret")
    respond(handshake, answer(auth_required=True))

    assert respond(handshake, HEARTBEAT) == Next(data=nop())
    assert respond(handshake, AUTH_ANSWER) == NOTHING


@pytest.mark.parametrize(
    "subscription", [("bad topic", "c"), ("t", "bad/channel"), ("", "c"), ("t", "x" * 65)]
)
def test_a_bad_name_is_refused_before_anything_is_sent(subscription: tuple[str, str]) -> None:
    with pytest.raises(InvalidArgumentError, match="is not valid"):
        Handshake("h:4150", ClientConfig(), subscription)


def test_a_consumer_needs_heartbeats() -> None:
    with pytest.raises(InvalidArgumentError, match="consumers need heartbeats"):
        Handshake("h:4150", ClientConfig(heartbeat_interval=-1), SUBSCRIPTION)
