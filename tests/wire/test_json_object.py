"""JSON as Go reads it into a structure; IDENTIFY of both daemons is tested with their own fields."""

import pytest

from nsqlake.wire.json_object import REFUSALS, as_bool, as_int32, as_int64, as_text, decode_object

FIELDS = {
    "name": ("name", as_text),
    "is_big": ("is_big", as_bool),
    "size": ("size", as_int64),
    "small": ("small", as_int32),
}


@pytest.mark.parametrize(
    ("body", "fields"),
    [
        (b"null", {}),
        (b"{}", {}),
        (b'{"NAME":"a","Is_Big":true}', {"name": "a", "is_big": True}),
        (b'{"name":"a","name":"b"}', {"name": "b"}),
        (b'{"name":"a","name":null}', {"name": "a"}),
        (b'{"other":[1.5,{}],"size":-7}', {"size": -7}),
        (b'{"name":"\\ud800\xff"}', {"name": "\ufffd\ufffd"}),
    ],
)
def test_objects_are_read_as_go_does(body: bytes, fields: dict[str, object]) -> None:
    assert decode_object(body, FIELDS) == fields


@pytest.mark.parametrize(
    "body",
    [
        b"[]", b'"x"', b"{", b"{} {}", b'{"name":1}', b'{"is_big":1}', b'{"size":true}', b'{"size":1.0}',
        b'{"small":2147483648}', b'{"size":9223372036854775808}', b'{"size":NaN}', b"[" * 50_000,
        b'{"x":[' + b"[]," * 20_000 + b"[]]}",
    ],
)  # fmt: skip
def test_what_go_would_refuse_is_refused(body: bytes) -> None:
    with pytest.raises(REFUSALS):
        decode_object(body, FIELDS)
