import pytest
from hypothesis import given
from hypothesis import strategies as st

from nsqlake.wire.errors import StreamError
from nsqlake.wire.received_message import Message, decode_message

HEADER = bytes.fromhex("178d5e2f0a1b2c3d 0001") + b"0dd2a6d1a6c02001"


def test_message_is_decoded_into_its_fields() -> None:
    message = decode_message(HEADER + b"hello")

    assert message == Message(
        timestamp_ns=0x178D5E2F0A1B2C3D, attempts=1, id=b"0dd2a6d1a6c02001", body=b"hello"
    )


def test_attempts_are_unsigned() -> None:
    payload = HEADER[:8] + (40_000).to_bytes(2, "big") + HEADER[10:]

    assert decode_message(payload).attempts == 40_000


def test_body_may_be_empty() -> None:
    assert decode_message(HEADER).body == b""


@pytest.mark.parametrize("length", [0, 1, 25])
def test_message_shorter_than_its_header_is_refused(length: int) -> None:
    with pytest.raises(StreamError, match=f"message of {length} bytes is shorter than its header of 26"):
        decode_message(HEADER[:length])


@given(st.binary(max_size=60))
def test_any_bytes_yield_a_message_or_a_stream_error(payload: bytes) -> None:
    try:
        message = decode_message(payload)
    except StreamError:
        assert len(payload) < 26
        return

    head = message.timestamp_ns.to_bytes(8, "big", signed=True) + message.attempts.to_bytes(2, "big")
    assert head + message.id + message.body == payload
