"""`encode_json`: what Go's encoding/json would write."""

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nsqlake.runtime.http.go_json import encode_json


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"a": 1, "b": [True, None]}, b'{"a":1,"b":[true,null]}'),
        ("<a href='x'>&", rb'"\u003ca href=' + b"'x'" + rb'\u003e\u0026"'),
        ("Grüße \u2028\u2029", '"Grüße \\u2028\\u2029"'.encode()),
        ([1.0, 0.5, -3.0], b"[1,0.5,-3]"),
        ({"v": 0.0}, b'{"v":0}'),
        (7.0, b"7"),
        (1e15, b"1000000000000000"),
        (1e16, b"10000000000000000"),
        (123456789012345680.0, b"123456789012345680"),
        (1.5e20, b"150000000000000000000"),
        (1e21, b"1e+21"),
        (-2.5e30, b"-2.5e+30"),
        (0.00001, b"0.00001"),
        (1e-6, b"0.000001"),
        (1.5e-6, b"0.0000015"),
        (1e-7, b"1e-7"),
        (["1.0,", 'a"2.0]', "3e16", 4.0], b'["1.0,","a\\"2.0]","3e16",4]'),
    ],
)
def test_values_look_as_go_writes_them(value, expected):
    assert encode_json(value) == expected


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=10), max_size=5))
def test_any_value_reads_back_as_it_was(value):
    encoded = encode_json(value)

    assert json.loads(encoded) == value
    assert re.search(rb"[<>&]", encoded) is None
