import contextlib
import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nsqlake.wire.errors import ClientError
from nsqlake.wire.identify import ClientSettings, IdentifyRequest, ServerLimits, decode_identify, negotiate

LIMITS = ServerLimits(version="1.3.0")
CURRENT = ClientSettings(client_id="10.0.0.7", hostname="10.0.0.7")
NUMBERS = st.sampled_from([-(2**63), -2, -1, 0, 1, 24, 25, 63, 64, 99, 100, 999, 1000, 60_000, 2**63 - 1])


def settings_for(
    body: bytes, *, limits: ServerLimits = LIMITS, current: ClientSettings = CURRENT
) -> ClientSettings:
    return negotiate(decode_identify(body), limits, current)[0]


def answer_to(
    limits: ServerLimits = LIMITS, current: ClientSettings = CURRENT, **fields: object
) -> dict[str, object]:
    body = json.dumps({"feature_negotiation": True, **fields}).encode()
    answer: dict[str, object] = json.loads(negotiate(decode_identify(body), limits, current)[1])
    return answer


def test_answer_to_feature_negotiation_is_exactly_nsqs() -> None:
    _, answer = negotiate(IdentifyRequest(feature_negotiation=True), LIMITS, CURRENT)

    assert answer == (
        b'{"max_rdy_count":2500,"version":"1.3.0","max_msg_timeout":900000,"msg_timeout":60000,'
        b'"tls_v1":false,"deflate":false,"deflate_level":6,"max_deflate_level":6,"snappy":false,'
        b'"sample_rate":0,"auth_required":false,"output_buffer_size":16384,"output_buffer_timeout":250,'
        b'"topology_region":"","topology_zone":""}'
    )


def test_without_feature_negotiation_the_answer_is_ok_and_no_feature_is_granted() -> None:
    request = IdentifyRequest(tls_v1=True, snappy=True, deflate=True, sample_rate=5)

    settings, answer = negotiate(request, msgspec.structs.replace(LIMITS, tls=True), CURRENT)

    assert answer == b"OK"
    assert (settings.tls, settings.snappy, settings.deflate) == (False, False, False)
    assert settings.sample_rate == 5


def test_absent_fields_keep_the_settings_but_clear_the_names() -> None:
    settings = settings_for(b"{}")

    assert settings == ClientSettings(client_id="", hostname="")


def test_settings_follow_the_request() -> None:
    settings = settings_for(
        b'{"client_id":"a","hostname":"b","user_agent":"c/1","heartbeat_interval":1000,"msg_timeout":900000,'
        b'"output_buffer_size":65536,"output_buffer_timeout":30000,"sample_rate":99,"topology_region":"r",'
        b'"topology_zone":"z"}'
    )

    assert settings == ClientSettings(
        client_id="a", hostname="b", user_agent="c/1", heartbeat_interval_ms=1000, msg_timeout_ms=900_000,
        output_buffer_size=65_536, output_buffer_timeout_ms=30_000, sample_rate=99, topology_region="r",
        topology_zone="z",
    )  # fmt: skip


def test_minus_one_switches_heartbeats_and_the_timed_flush_off() -> None:
    settings = settings_for(b'{"heartbeat_interval":-1,"output_buffer_timeout":-1}')

    assert (settings.heartbeat_interval_ms, settings.output_buffer_timeout_ms) == (0, 0)
    assert not settings.is_unbuffered


def test_unbuffered_client_is_answered_size_1_and_timeout_0() -> None:
    answer = answer_to(output_buffer_size=-1, output_buffer_timeout=500)

    assert (answer["output_buffer_size"], answer["output_buffer_timeout"]) == (1, 0)
    assert settings_for(b'{"output_buffer_size":-1}').is_unbuffered


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (b'{"heartbeat_interval":999}', b"heartbeat interval (999) is invalid"),
        (b'{"heartbeat_interval":60001}', b"heartbeat interval (60001) is invalid"),
        (b'{"heartbeat_interval":-2}', b"heartbeat interval (-2) is invalid"),
        (b'{"output_buffer_timeout":24}', b"output buffer timeout (24) is invalid"),
        (b'{"output_buffer_timeout":30001}', b"output buffer timeout (30001) is invalid"),
        (b'{"output_buffer_size":63}', b"output buffer size (63) is invalid"),
        (b'{"output_buffer_size":65537}', b"output buffer size (65537) is invalid"),
        (b'{"sample_rate":100}', b"sample rate (100) is invalid"),
        (b'{"sample_rate":-1}', b"sample rate (-1) is invalid"),
        (b'{"msg_timeout":999}', b"msg timeout (999) is invalid"),
        (b'{"msg_timeout":900001}', b"msg timeout (900001) is invalid"),
        (b'{"msg_timeout":-1}', b"msg timeout (-1) is invalid"),
    ],
)
def test_field_out_of_range_is_refused_with_nsqs_text(body: bytes, text: bytes) -> None:
    with pytest.raises(ClientError) as caught:
        settings_for(body)

    assert caught.value.payload == b"E_BAD_BODY IDENTIFY " + text
    assert caught.value.fatal


def test_fields_are_checked_in_nsqs_order() -> None:
    order = [
        "heartbeat_interval",
        "output_buffer_timeout",
        "output_buffer_size",
        "sample_rate",
        "msg_timeout",
    ]
    fields: dict[str, object] = {key: 100 if key == "sample_rate" else 1 for key in reversed(order)}
    fields |= {"feature_negotiation": True, "snappy": True, "deflate": True}

    for key in order:
        with pytest.raises(ClientError, match=f"IDENTIFY {key.replace('_', ' ')} "):
            settings_for(json.dumps(fields).encode())
        del fields[key]

    with pytest.raises(ClientError, match="E_IDENTIFY_FAILED"):
        settings_for(json.dumps(fields).encode())


def test_snappy_and_deflate_together_are_refused() -> None:
    request = IdentifyRequest(feature_negotiation=True, snappy=True, deflate=True)

    with pytest.raises(ClientError) as caught:
        negotiate(request, LIMITS, CURRENT)

    assert caught.value.payload == (b"E_IDENTIFY_FAILED cannot enable both deflate and snappy compression")


def test_both_compressions_are_fine_when_the_server_has_only_one() -> None:
    limits = msgspec.structs.replace(LIMITS, snappy=False)

    answer = answer_to(limits, snappy=True, deflate=True)

    assert (answer["snappy"], answer["deflate"]) == (False, True)


def test_features_the_server_lacks_come_back_false() -> None:
    limits = msgspec.structs.replace(LIMITS, tls=False, snappy=False, deflate=False)

    answer = answer_to(limits, tls_v1=True, snappy=True, deflate=True)

    assert (answer["tls_v1"], answer["snappy"], answer["deflate"]) == (False, False, False)


def test_granted_features_are_in_the_settings() -> None:
    limits = msgspec.structs.replace(LIMITS, tls=True)

    settings = settings_for(b'{"feature_negotiation":true,"tls_v1":true,"snappy":true}', limits=limits)

    assert (settings.tls, settings.snappy, settings.deflate) == (True, True, False)


@pytest.mark.parametrize(
    ("requested", "maximum", "level"), [(0, 6, 6), (-9, 6, 6), (3, 6, 3), (9, 6, 6), (9, 9, 9), (0, 4, 4)]
)
def test_deflate_level_is_capped_by_the_server(requested: int, maximum: int, level: int) -> None:
    limits = msgspec.structs.replace(LIMITS, max_deflate_level=maximum)

    answer = answer_to(limits, deflate=True, deflate_level=requested)

    assert (answer["deflate"], answer["deflate_level"], answer["max_deflate_level"]) == (True, level, maximum)


def test_deflate_level_without_deflate_is_the_default() -> None:
    assert answer_to(deflate_level=3)["deflate_level"] == 6


def test_answer_tells_the_clients_values_and_the_servers_limits_and_location() -> None:
    limits = ServerLimits(
        version="9", max_rdy_count=7, max_msg_timeout_ms=5000, auth_required=True,
        topology_region="eu", topology_zone="eu-1",
    )  # fmt: skip

    answer = answer_to(limits, msg_timeout=2000, sample_rate=3, topology_region="us")

    assert (answer["version"], answer["max_rdy_count"], answer["auth_required"]) == ("9", 7, True)
    assert (answer["max_msg_timeout"], answer["msg_timeout"], answer["sample_rate"]) == (5000, 2000, 3)
    assert (answer["topology_region"], answer["topology_zone"]) == ("eu", "eu-1")


def test_second_identify_keeps_what_it_does_not_mention() -> None:
    first = settings_for(b'{"client_id":"a","heartbeat_interval":2000,"msg_timeout":3000,"sample_rate":5}')

    second = settings_for(b'{"client_id":"b"}', current=first)

    assert (second.client_id, second.heartbeat_interval_ms, second.msg_timeout_ms) == ("b", 2000, 3000)
    assert second.sample_rate == 0


def test_upgrade_made_before_stays_and_is_not_granted_again() -> None:
    current = ClientSettings(tls=True, deflate=True, deflate_level=3)
    limits = msgspec.structs.replace(LIMITS, tls=True)
    request = IdentifyRequest(feature_negotiation=True, tls_v1=True, deflate=True, deflate_level=5)

    settings, answer = negotiate(request, limits, current)

    assert (settings.tls, settings.deflate, settings.deflate_level) == (True, True, 3)
    assert b'"tls_v1":false,"deflate":false' in answer


def test_second_compression_over_the_first_is_refused() -> None:
    with pytest.raises(ClientError, match="cannot enable both"):
        answer_to(current=ClientSettings(snappy=True), deflate=True)


@given(NUMBERS, NUMBERS, NUMBERS, NUMBERS, NUMBERS, st.booleans())
def test_any_numbers_yield_settings_within_limits_or_a_client_error(
    heartbeat: int, size: int, timeout: int, sample: int, msg_timeout: int, negotiation: bool
) -> None:
    request = IdentifyRequest(
        heartbeat_interval_ms=heartbeat, output_buffer_size=size, output_buffer_timeout_ms=timeout,
        sample_rate=sample, msg_timeout_ms=msg_timeout, feature_negotiation=negotiation,
    )  # fmt: skip

    with contextlib.suppress(ClientError):
        settings, _ = negotiate(request, LIMITS, CURRENT)
        assert settings.heartbeat_interval_ms == 0 or 1000 <= settings.heartbeat_interval_ms <= 60_000
        assert settings.output_buffer_size == 1 or 64 <= settings.output_buffer_size <= 65_536
        assert settings.output_buffer_timeout_ms == 0 or 25 <= settings.output_buffer_timeout_ms <= 30_000
        assert 0 <= settings.sample_rate <= 99
        assert 1000 <= settings.msg_timeout_ms <= 900_000
