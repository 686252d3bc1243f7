import contextlib
import json
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nsqlake.wire.errors import ClientError
from nsqlake.wire.identify_request import IdentifyRequest, decode_identify
from nsqlake.wire.json_object import MAX_JSON_TOKENS

TEXT = st.text('aZ_ſ"\\\ud800é', max_size=8)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)
KEYS = st.sampled_from(["client_id", "Hostname", "SNAPPY", "heartbeat_interval", "sample_rate", "x"])


def test_every_field_is_decoded() -> None:
    body = json.dumps(
        {
            "client_id": "a", "hostname": "b", "user_agent": "c", "feature_negotiation": True,
            "heartbeat_interval": 1000, "output_buffer_size": -1, "output_buffer_timeout": 25,
            "sample_rate": 42, "msg_timeout": 5000, "tls_v1": True, "snappy": True, "deflate": True,
            "deflate_level": 9, "topology_region": "d", "topology_zone": "e",
        }
    ).encode()  # fmt: skip

    request = decode_identify(body)

    assert request == IdentifyRequest(
        client_id="a", hostname="b", user_agent="c", feature_negotiation=True,
        heartbeat_interval_ms=1000, output_buffer_size=-1, output_buffer_timeout_ms=25,
        sample_rate=42, msg_timeout_ms=5000, tls_v1=True, snappy=True, deflate=True,
        deflate_level=9, topology_region="d", topology_zone="e",
    )  # fmt: skip


@pytest.mark.parametrize(
    "body",
    [
        b"null",
        b" \t\r\n{} \n",
        b'{"short_id":"a","long_id":1}',
        b'{"client_id":null,"snappy":null,"sample_rate":null}',
        b'{"x":1e999,"y":-0.5E-3,"z":' + b"1" * 5000 + b"}",
        b'{"x":[[{"client_id":"inner"}]]}',
        b'{"heartbeat_interval":-0}',
    ],
)
def test_what_says_nothing_asks_for_nothing(body: bytes) -> None:
    assert decode_identify(body) == IdentifyRequest()


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b" ",
        b"[]",
        b"1",
        b"true",
        b'"x"',
        b"{} x",
        b"{}{}",
        b"{}\x00",
        b"\xef\xbb\xbf{}",
        b"\xff",
        b'{"a":1,}',
        b"{'a':1}",
        b'{"a":01}',
        b'{"a":+1}',
        b'{"a":1.}',
        b'{"a":NaN}',
        b'{"a":-Infinity}',
        b'{"a":"\\x"}',
        b'{"a":"\x01"}',
    ],
)
def test_what_is_not_one_json_object_is_refused(body: bytes) -> None:
    with pytest.raises(ClientError) as caught:
        decode_identify(body)

    assert caught.value.payload == b"E_BAD_BODY IDENTIFY failed to decode JSON body"
    assert caught.value.fatal


@pytest.mark.parametrize(
    "member",
    [
        b'"heartbeat_interval":1000.0',
        b'"heartbeat_interval":1e3',
        b'"heartbeat_interval":"1000"',
        b'"heartbeat_interval":true',
        b'"heartbeat_interval":9223372036854775808',
        b'"heartbeat_interval":' + b"1" * 100,
        b'"sample_rate":2147483648',
        b'"msg_timeout":[]',
        b'"snappy":1',
        b'"snappy":"true"',
        b'"client_id":1',
        b'"client_id":1.5',
        b'"client_id":{}',
    ],
)
def test_wrong_type_is_refused_even_when_a_good_value_follows(member: bytes) -> None:
    key = member.partition(b":")[0]

    for body in (b"{" + member + b"}", b"{" + member + b"," + key + b":null}"):
        with pytest.raises(ClientError, match="failed to decode JSON body"):
            decode_identify(body)


@pytest.mark.parametrize(
    ("body", "client_id"),
    [
        ('{"CLIENT_ID":"a"}', "a"),
        ('{"client_id":"a","Client_Id":"b"}', "b"),
        ('{"CLIENT_ID":"a","client_id":"b","CLIENT_ID":"c"}', "c"),
        ('{"client_id":"a","client_id":null}', "a"),
        ('{"\\u0063lient_id":"a"}', "a"),
    ],
)
def test_keys_match_in_any_case_and_the_last_value_wins(body: str, client_id: str) -> None:
    assert decode_identify(body.encode()).client_id == client_id


def test_keys_fold_as_in_go_and_no_further() -> None:
    assert decode_identify('{"hoſtname":"a"}'.encode()).hostname == "a"
    assert decode_identify('{"deﬂate":true,"DEFLATE_LEVEL":3}'.encode()) == IdentifyRequest(deflate_level=3)


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (b'"\xff\xfe"', "\ufffd\ufffd"),
        (b'"\\ud800"', "\ufffd"),
        (b'"\\ud83d\\ude00"', "😀"),
        (b'"\x7f"', "\x7f"),
        ('"größe"'.encode(), "größe"),
    ],
)
def test_text_that_has_no_utf8_form_is_replaced(raw: bytes, text: str) -> None:
    assert decode_identify(b'{"client_id":' + raw + b"}").client_id == text


@pytest.mark.parametrize("depth", [5_000, 1_000_000])
def test_deep_nesting_is_refused_and_nothing_else_happens(depth: int) -> None:
    with pytest.raises(ClientError, match="failed to decode JSON body"):
        decode_identify(b'{"x":' + b"[" * depth + b"]" * depth + b"}")


def test_large_text_is_no_reason_to_refuse() -> None:
    assert len(decode_identify(b'{"user_agent":"' + b"a" * 5_000_000 + b'"}').user_agent) == 5_000_000


@pytest.mark.parametrize(
    "body", [b'{"x":[' + b"[]," * 1_700_000 + b"[]]}", b"[" + b"{}," * 1_700_000 + b"{}]"]
)
def test_body_of_many_small_values_takes_no_memory(body: bytes) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(ClientError, match="failed to decode JSON body"):
            decode_identify(body)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert peak < 1_000_000


def test_long_body_of_few_values_is_accepted() -> None:
    members = b",".join(b'"key%d":%d' % (number, number) for number in range(MAX_JSON_TOKENS // 2 - 1))

    assert decode_identify(b"{" + members + b"}") == IdentifyRequest()


@given(st.binary(max_size=60))
def test_any_bytes_yield_a_request_or_a_client_error(body: bytes) -> None:
    with contextlib.suppress(ClientError):
        assert isinstance(decode_identify(body), IdentifyRequest)


@given(st.dictionaries(KEYS, JSON, max_size=5))
def test_any_json_object_yields_a_request_or_a_client_error(document: dict[str, object]) -> None:
    with contextlib.suppress(ClientError):
        assert isinstance(decode_identify(json.dumps(document).encode()), IdentifyRequest)
