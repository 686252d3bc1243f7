import pytest
from hypothesis import given
from hypothesis import strategies as st

from nsqlake.errors import NsqlakeError
from nsqlake.wire.errors import ClientError, ProtocolError, RemoteError, StreamError, printable, quoted


def test_client_error_payload_is_the_code_and_the_description() -> None:
    error = ClientError("E_INVALID", "cannot SUB in current state")

    assert error.payload == b"E_INVALID cannot SUB in current state"
    assert (error.code, error.description) == ("E_INVALID", "cannot SUB in current state")


def test_client_error_without_description_has_no_trailing_space() -> None:
    assert ClientError("E_BAD_PROTOCOL").payload == b"E_BAD_PROTOCOL"


def test_client_error_is_fatal_unless_told_otherwise() -> None:
    assert ClientError("E_INVALID").fatal
    assert not ClientError("E_FIN_FAILED", "FIN x failed ID not in flight", fatal=False).fatal


def test_description_that_has_no_utf8_form_can_still_be_sent() -> None:
    error = ClientError("E_PUB_FAILED", "open \udcff: no such file")

    assert error.payload == b"E_PUB_FAILED open \\udcff: no such file"


@pytest.mark.parametrize(
    ("payload", "code", "description"),
    [
        (b"E_BAD_TOPIC PUB topic name is not valid", "E_BAD_TOPIC", "PUB topic name is not valid"),
        (b"E_BAD_PROTOCOL", "E_BAD_PROTOCOL", ""),
        (b"", "", ""),
        (b"E_X \xff", "E_X", "\ufffd"),
    ],
)
def test_remote_error_splits_the_frame_at_the_first_space(
    payload: bytes, code: str, description: str
) -> None:
    error = RemoteError.decode(payload)

    assert (error.code, error.description) == (code, description)
    assert str(error) == f"{code} {description}".rstrip(" ")


@pytest.mark.parametrize("error", [ClientError("E"), RemoteError("E"), StreamError("bad")])
def test_every_error_is_a_protocol_error_that_is_not_retriable(error: ProtocolError) -> None:
    assert isinstance(error, ProtocolError)
    assert isinstance(error, NsqlakeError)
    assert not error.retriable


def test_stream_error_tells_its_reason() -> None:
    assert StreamError("frame size -1").reason == str(StreamError("frame size -1")) == "frame size -1"


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (b"", ""),
        (b"FOO bar\\baz", "FOO bar\\baz"),
        ("größe 😀".encode(), "größe 😀"),
        (b"a\xffb", "a\\xffb"),
        (b"line\nbreak\x00\x7f", "line\\x0abreak\\x00\\x7f"),
        ("\u202etxt".encode(), "\\xe2\\x80\\xaetxt"),
    ],
)
def test_printable_keeps_text_and_escapes_the_rest(raw: bytes, text: str) -> None:
    assert printable(raw) == text


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (b"", '""'),
        (b't"x', r'"t\"x"'),
        (b"a\\b", r'"a\\b"'),
        (b"t\xff", r'"t\xff"'),
        (b"\xed\xa0\x80", r'"\xed\xa0\x80"'),
        (b"\x01\x7f\t\n", r'"\x01\x7f\t\n"'),
        (b"\a\b\f\r\v", r'"\a\b\f\r\v"'),
        ("é😀".encode(), '"é😀"'),
        ("\u0085\u2028".encode(), r'"\u0085\u2028"'),
        ("\U000e0001".encode(), r'"\U000e0001"'),
    ],
)
def test_quoted_escapes_like_go(raw: bytes, text: str) -> None:
    assert quoted(raw) == text


def test_reflected_text_is_cut_at_64_characters() -> None:
    assert printable(b"A" * 16_384) == "A" * 64
    assert quoted(b"A" * 65) == '"' + "A" * 64 + '"'
    assert printable("😀".encode() * 100) == "😀" * 64


def test_cutting_never_leaves_half_an_escape() -> None:
    assert printable(b"a" + b"\xff" * 100) == "a" + "\\xff" * 15


@given(st.binary(max_size=400))
def test_any_bytes_become_at_most_64_printable_characters(raw: bytes) -> None:
    for text in (printable(raw), quoted(raw)[1:-1]):
        assert len(text) <= 64
        assert text.isprintable()
        assert ClientError("E_INVALID", text).payload.decode("utf-8").endswith(text)
