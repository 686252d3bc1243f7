import contextlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nsqlake.apps.nsq_to_nsq.go_json import NotJsonObjectError, decode_object, encode_object, go_json_number


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1000.0, "1000"),
        (1.5, "1.5"),
        (0.1, "0.1"),
        (-0.0, "-0"),
        (1e20, "100000000000000000000"),
        (1e21, "1e+21"),
        (1.5e300, "1.5e+300"),
        (1e-6, "0.000001"),
        (1e-7, "1e-7"),
        (1.25e-10, "1.25e-10"),
        (2.0**62, "4611686018427388000"),
        (12345678901234567890.0, "12345678901234567000"),
    ],
)
def test_numbers_look_as_go_writes_them(value: float, text: str) -> None:
    assert go_json_number(value) == text


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b'{"b":1,"a":2}', b'{"a":2,"b":1}'),
        (b'{"a":1e3}', b'{"a":1000}'),
        (b'{"a":-0.0}', b'{"a":0}'),
        (b'{"a":4611686018427387904}', b'{"a":4611686018427387904}'),
        (b'{"a":[4611686018427387904]}', b'{"a":[4611686018427388000]}'),
        (b'{"a":12345678901234567890}', b'{"a":12345678901234567000}'),
        (b'{"a":{"z":null,"b":[true,false]}}', b'{"a":{"b":[true,false],"z":null}}'),
        (b'{"a":"<>&\\u2028\\u0001\\n/"}', b'{"a":"\\u003c\\u003e\\u0026\\u2028\\u0001\\n/"}'),
        ('{"ä":"\\u00e4"}'.encode(), '{"ä":"ä"}'.encode()),
        (b'{"a":"\\ud800x"}', '{"a":"\N{REPLACEMENT CHARACTER}x"}'.encode()),
        (b'{"a":"\xe2\x82x"}', ('{"a":"' + "\N{REPLACEMENT CHARACTER}" * 2 + 'x"}').encode()),
        (b'{"a":1,"a":2}', b'{"a":2}'),
        (b" null\n", b"{}"),
    ],
)
def test_objects_are_written_as_go_does(body: bytes, expected: bytes) -> None:
    assert encode_object(decode_object(body)) == expected


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"text",
        b"[1,2]",
        b"1",
        b'"a"',
        b'{"a":NaN}',
        b'{"a":1e999}',
        b"{} {}",
        b'{"a":1',
        b"\xef\xbb\xbf{}",
    ],
)
def test_what_is_no_object_is_refused(body: bytes) -> None:
    with pytest.raises(NotJsonObjectError):
        decode_object(body)


def test_deep_nesting_is_refused_and_not_a_crash() -> None:
    depth = 500_000
    with pytest.raises(NotJsonObjectError, match="nested too deeply"):
        encode_object(decode_object(b'{"a":' + b"[" * depth + b"]" * depth + b"}"))


NUMBERS = st.floats(allow_nan=False, allow_infinity=False)


@given(st.dictionaries(st.text(max_size=5), NUMBERS | st.lists(NUMBERS, max_size=3), max_size=4))
def test_what_is_written_reads_back_the_same(value: dict[str, object]) -> None:
    given_object = decode_object(json.dumps(value).encode())

    assert decode_object(encode_object(given_object)) == given_object


@given(st.binary())
def test_any_bytes_are_an_object_or_refused(body: bytes) -> None:
    with contextlib.suppress(NotJsonObjectError):
        encode_object(decode_object(body))
