from hypothesis import given
from hypothesis import strategies as st

from nsqlake.wire.frames import CLOSE_WAIT_FRAME, HEARTBEAT_FRAME, OK_FRAME, FrameType, encode_frame


def test_frame_is_size_type_and_data() -> None:
    frame = encode_frame(FrameType.ERROR, b"E_INVALID")

    assert frame == bytes.fromhex("0000000d 00000001") + b"E_INVALID"


def test_empty_frame_counts_its_type() -> None:
    assert encode_frame(FrameType.MESSAGE, b"") == bytes.fromhex("00000004 00000002")


def test_constant_frames_are_those_of_the_protocol() -> None:
    assert bytes.fromhex("00000006 00000000") + b"OK" == OK_FRAME
    assert bytes.fromhex("0000000f 00000000") + b"_heartbeat_" == HEARTBEAT_FRAME
    assert bytes.fromhex("0000000e 00000000") + b"CLOSE_WAIT" == CLOSE_WAIT_FRAME


@given(st.sampled_from(FrameType), st.binary(max_size=200))
def test_size_counts_everything_behind_it(frame_type: FrameType, payload: bytes) -> None:
    frame = encode_frame(frame_type, payload)

    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    assert int.from_bytes(frame[4:8], "big") == frame_type
    assert frame[8:] == payload
