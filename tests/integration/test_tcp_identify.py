"""IDENTIFY: what it accepts, what it answers and what follows from it."""

import json
from typing import Any

import pytest

from nsqlake import NSQ_VERSION
from nsqlake.testing.nsqd import NsqdFixture
from nsqlake.wire import commands
from nsqlake.wire.identify import ClientSettings
from tests.fakes.tcp_client import TcpClient
from tests.integration.conftest import Connect
from tests.integration.support import find_channel

BAD_JSON = "E_BAD_BODY IDENTIFY failed to decode JSON body"


def settings_of_only_consumer(nsqd: NsqdFixture, topic: str, channel: str) -> ClientSettings:
    def look(daemon: Any) -> ClientSettings:
        (subscription,) = find_channel(daemon, topic, channel).core.subscriptions
        settings: ClientSettings = subscription.key.session.settings  # type: ignore[attr-defined]
        return settings

    return nsqd.call(look)


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "E_BAD_BODY IDENTIFY invalid body size 0"),
        (-1, "E_BAD_BODY IDENTIFY invalid body size -1"),
        (5_242_881, "E_BAD_BODY IDENTIFY body too big 5242881 > 5242880"),
    ],
)
def test_body_size_out_of_range_is_refused(client: TcpClient, size: int, text: str) -> None:
    client.send(b"IDENTIFY\n", size.to_bytes(4, "big", signed=True))

    client.expect_fatal(text)


@pytest.mark.parametrize(
    ("sent", "what"), [(b"", "body size"), (b"\x00\x00", "body size"), (b"\x00\x00\x00\x02{", "body")]
)
def test_body_cut_short_is_refused(client: TcpClient, sent: bytes, what: str) -> None:
    client.send(b"IDENTIFY\n", sent)
    client.finish_sending()

    client.expect_fatal(f"E_BAD_BODY IDENTIFY failed to read {what}")


@pytest.mark.parametrize("body", [b"null", b"{}", b'{"client_id":null}', b'{"unknown":[1]}'])
def test_without_feature_negotiation_the_answer_is_ok(client: TcpClient, body: bytes) -> None:
    client.identify_raw(body)

    client.expect_ok()


@pytest.mark.parametrize(
    "body",
    [
        b"[]",
        b"{",
        b"{}x",
        b"nan",
        b'{"heartbeat_interval":1e3}',
        b'{"heartbeat_interval":1000.0}',
        b'{"heartbeat_interval":"1000"}',
        b'{"client_id":1}',
        b'{"tls_v1":1}',
        b"[" * 100_000,
    ],
)
def test_what_is_not_the_right_json_is_refused(client: TcpClient, body: bytes) -> None:
    client.identify_raw(body)

    client.expect_fatal(BAD_JSON)


def test_negotiated_answer_has_the_keys_of_nsq_in_its_order(client: TcpClient) -> None:
    client.identify_raw(b'{"feature_negotiation":true}')

    assert client.response().decode() == (
        f'{{"max_rdy_count":2500,"version":"{NSQ_VERSION}","max_msg_timeout":900000,"msg_timeout":60000,'
        '"tls_v1":false,"deflate":false,"deflate_level":6,"max_deflate_level":6,"snappy":false,'
        '"sample_rate":0,"auth_required":false,"output_buffer_size":16384,"output_buffer_timeout":250,'
        '"topology_region":"","topology_zone":""}'
    )


def test_keys_may_be_in_any_case(client: TcpClient) -> None:
    client.identify_raw(b'{"FEATURE_NEGOTIATION":true}')

    assert json.loads(client.response())["max_rdy_count"] == 2500


def test_identify_may_be_repeated(client: TcpClient) -> None:
    first = client.identify(msg_timeout=2000)
    second = client.identify()

    assert (first["msg_timeout"], second["msg_timeout"]) == (2000, 2000)


@pytest.mark.parametrize(
    ("field", "value", "text"),
    [
        ("heartbeat_interval", 999, "heartbeat interval (999) is invalid"),
        ("heartbeat_interval", 60_001, "heartbeat interval (60001) is invalid"),
        ("heartbeat_interval", -2, "heartbeat interval (-2) is invalid"),
        ("output_buffer_timeout", 24, "output buffer timeout (24) is invalid"),
        ("output_buffer_timeout", 30_001, "output buffer timeout (30001) is invalid"),
        ("output_buffer_size", 63, "output buffer size (63) is invalid"),
        ("output_buffer_size", 65_537, "output buffer size (65537) is invalid"),
        ("sample_rate", 100, "sample rate (100) is invalid"),
        ("sample_rate", -1, "sample rate (-1) is invalid"),
        ("msg_timeout", -1, "msg timeout (-1) is invalid"),
        ("msg_timeout", 999, "msg timeout (999) is invalid"),
        ("msg_timeout", 900_001, "msg timeout (900001) is invalid"),
    ],
)
def test_value_out_of_range_is_refused(client: TcpClient, field: str, value: int, text: str) -> None:
    client.identify_raw(json.dumps({field: value}).encode())

    client.expect_fatal(f"E_BAD_BODY IDENTIFY {text}")


def test_first_wrong_value_is_the_one_reported(client: TcpClient) -> None:
    client.identify_raw(b'{"msg_timeout":1,"sample_rate":100,"heartbeat_interval":1}')

    client.expect_fatal("E_BAD_BODY IDENTIFY heartbeat interval (1) is invalid")


def test_unbuffered_output_is_announced_as_size_1_without_a_timeout(client: TcpClient) -> None:
    answer = client.identify(output_buffer_size=-1)

    assert (answer["output_buffer_size"], answer["output_buffer_timeout"]) == (1, 0)


def test_deflate_level_is_capped(client: TcpClient, topic: str) -> None:
    answer = client.identify(deflate=True, deflate_level=9)

    assert (answer["deflate"], answer["deflate_level"]) == (True, 6)
    client.pub(topic, b"compressed")


def test_both_compressions_at_once_are_refused(client: TcpClient) -> None:
    client.identify_raw(b'{"feature_negotiation":true,"snappy":true,"deflate":true}')

    client.expect_fatal("E_IDENTIFY_FAILED cannot enable both deflate and snappy compression")


def test_compression_is_ignored_without_feature_negotiation(client: TcpClient, topic: str) -> None:
    client.identify_raw(b'{"snappy":true,"deflate":true,"tls_v1":true}')

    client.expect_ok()
    client.pub(topic, b"plain")


def test_features_that_the_server_lacks_are_not_granted(client: TcpClient, topic: str) -> None:
    answer = client.identify(tls_v1=True)

    assert answer["tls_v1"] is False
    client.pub(topic, b"plain")


def test_a_client_that_says_nothing_is_known_by_its_address(
    nsqd: NsqdFixture, client: TcpClient, topic: str
) -> None:
    client.sub(topic, "channel")

    settings = settings_of_only_consumer(nsqd, topic, "channel")

    assert (settings.client_id, settings.hostname) == ("127.0.0.1", "127.0.0.1")


def test_identify_overwrites_the_address_with_nothing(
    nsqd: NsqdFixture, client: TcpClient, topic: str
) -> None:
    client.identify_raw(b"{}")
    client.expect_ok()
    client.sub(topic, "channel")

    settings = settings_of_only_consumer(nsqd, topic, "channel")

    assert (settings.client_id, settings.hostname) == ("", "")


def test_identify_after_sub_is_refused(client: TcpClient, topic: str) -> None:
    client.sub(topic, "channel")

    client.identify_raw(b"{}")

    client.expect_fatal("E_INVALID cannot IDENTIFY in current state")


def test_identify_after_pub_is_accepted(client: TcpClient, topic: str) -> None:
    client.pub(topic, b"first")

    client.identify_raw(b"{}")

    client.expect_ok()


def test_bytes_behind_an_identify_are_read_after_it(client: TcpClient, topic: str) -> None:
    client.send(b"IDENTIFY\n", b"\x00\x00\x00\x02{}", commands.pub(topic, b"x"), commands.sub(topic, "c"))

    client.expect_ok()
    client.expect_ok()
    client.expect_ok()


@pytest.mark.parametrize("feature", ["snappy", "deflate"])
def test_bytes_behind_an_identify_that_changes_the_layers_end_the_connection(
    nsqd: NsqdFixture, connect: Connect, feature: str
) -> None:
    client = connect(nsqd)
    body = json.dumps({"feature_negotiation": True, feature: True}).encode()

    client.send(b"IDENTIFY\n", len(body).to_bytes(4, "big"), body, commands.nop())

    assert json.loads(client.response())[feature] is True
    client.expect_end()
