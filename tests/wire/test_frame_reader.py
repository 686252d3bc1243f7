import struct
import tracemalloc
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nsqlake.wire.errors import StreamError
from nsqlake.wire.frame_reader import Frame, FrameReader
from nsqlake.wire.frames import HEARTBEAT_FRAME, OK_FRAME, FrameType, encode_frame

FRAMES = st.lists(st.builds(Frame, st.sampled_from(FrameType), st.binary(max_size=60)), max_size=6)
LONG = encode_frame(FrameType.MESSAGE, b"x" * 1000)


def cut(data: bytes, cuts: list[int]) -> list[bytes]:
    """`data` in pieces that end at `cuts`, taken modulo its length."""
    edges = sorted({0, len(data), *(at % (len(data) + 1) for at in cuts)})
    return [data[begin:end] for begin, end in pairwise(edges)]


def read(pieces: list[bytes]) -> tuple[list[Frame], str | None]:
    reader, frames = FrameReader(max_frame_bytes=4096), []
    try:
        for piece in pieces:
            frames += reader.feed(piece)
        reader.feed(b"")
    except StreamError as error:
        return frames, error.reason
    return frames, None


def test_whole_frames_come_out_in_order() -> None:
    frames = FrameReader().feed(OK_FRAME + HEARTBEAT_FRAME)

    assert frames == [Frame(FrameType.RESPONSE, b"OK"), Frame(FrameType.RESPONSE, b"_heartbeat_")]


def test_bytes_may_come_one_at_a_time() -> None:
    reader = FrameReader()

    frames = [frame for byte in OK_FRAME + LONG for frame in reader.feed(bytes([byte]))]

    assert frames == [Frame(FrameType.RESPONSE, b"OK"), Frame(FrameType.MESSAGE, b"x" * 1000)]


def test_half_a_frame_yields_nothing_yet() -> None:
    reader = FrameReader()

    assert reader.feed(OK_FRAME[:9]) == []
    assert reader.feed(b"K") == [Frame(FrameType.RESPONSE, b"OK")]


@given(FRAMES, st.lists(st.integers(0, 1000), max_size=12))
def test_frames_do_not_depend_on_how_the_bytes_are_split(frames: list[Frame], cuts: list[int]) -> None:
    data = b"".join(encode_frame(frame.type, frame.payload) for frame in frames)

    assert read(cut(data, cuts)) == (frames, None)


@pytest.mark.parametrize(
    ("size", "frame_type", "reason"),
    [
        (-1, 0, "frame size -1 is below 4"),
        (-(2**31), 0, "frame size -2147483648 is below 4"),
        (3, 0, "frame size 3 is below 4"),
        (4093, 0, "frame of 4097 bytes exceeds the limit of 4096"),
        (2**31 - 1, 2, "frame of 2147483651 bytes exceeds the limit of 4096"),
        (4, 3, "unknown frame type 3"),
        (4, -1, "unknown frame type -1"),
    ],
)
def test_bad_header_is_refused_as_soon_as_it_is_complete(size: int, frame_type: int, reason: str) -> None:
    reader = FrameReader(max_frame_bytes=4096)

    with pytest.raises(StreamError) as caught:
        reader.feed(struct.pack(">ii", size, frame_type))

    assert caught.value.reason == reason


def test_largest_legal_frame_is_accepted() -> None:
    largest = encode_frame(FrameType.MESSAGE, b"x" * (4096 - 8))

    assert FrameReader(max_frame_bytes=4096).feed(largest)[0].payload == b"x" * 4088


def test_frames_before_a_bad_one_are_returned_and_the_error_is_raised_afterwards() -> None:
    reader = FrameReader()

    frames = reader.feed(OK_FRAME + struct.pack(">ii", -1, 0))

    assert frames == [Frame(FrameType.RESPONSE, b"OK")]
    assert reader.error is not None
    for data in (b"", OK_FRAME):
        with pytest.raises(StreamError, match="frame size -1"):
            reader.feed(data)


def test_declared_size_takes_no_memory_by_itself() -> None:
    tracemalloc.start()
    try:
        FrameReader(max_frame_bytes=2**31 + 3).feed(struct.pack(">ii", 2**31 - 1, 2) + b"x")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert peak < 100_000


@given(st.binary(max_size=300), st.lists(st.integers(0, 300), max_size=8))
def test_any_bytes_yield_frames_or_a_stream_error_however_they_are_split(
    data: bytes, cuts: list[int]
) -> None:
    assert read(cut(data, cuts)) == read([data])
