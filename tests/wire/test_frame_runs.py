import struct
import tracemalloc
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nsqlake.wire.errors import StreamError
from nsqlake.wire.frame_reader import Frame, FrameReader
from nsqlake.wire.frame_runs import FrameRuns
from nsqlake.wire.frames import HEARTBEAT_FRAME, OK_FRAME, FrameType, encode_frame

MESSAGE = encode_frame(FrameType.MESSAGE, b"m" * 30)
ERROR = encode_frame(FrameType.ERROR, b"E_X")
FRAMES = st.lists(
    st.one_of(
        st.builds(Frame, st.sampled_from([FrameType.RESPONSE, FrameType.ERROR]), st.binary(max_size=40)),
        st.builds(Frame, st.just(FrameType.MESSAGE), st.binary(min_size=26, max_size=60)),
    ),
    max_size=8,
)


def cut(data: bytes, cuts: list[int]) -> list[bytes]:
    """`data` in pieces that end at `cuts`, taken modulo its length."""
    edges = sorted({0, len(data), *(at % (len(data) + 1) for at in cuts)})
    return [data[begin:end] for begin, end in pairwise(edges)]


def read(pieces: list[bytes]) -> tuple[list[Frame], str | None]:
    reader, frames = FrameRuns(max_frame_bytes=4096), []
    try:
        for piece in pieces:
            frames += [Frame(kind, payload) for kind, run in reader.feed(piece) for payload in run]
        reader.feed(b"")
    except StreamError as error:
        return frames, error.reason
    return frames, None


def test_frames_of_one_type_come_as_one_run() -> None:
    runs = FrameRuns().feed(OK_FRAME + HEARTBEAT_FRAME + MESSAGE * 3 + ERROR + MESSAGE)

    assert runs == [
        (FrameType.RESPONSE, [b"OK", b"_heartbeat_"]),
        (FrameType.MESSAGE, [b"m" * 30] * 3),
        (FrameType.ERROR, [b"E_X"]),
        (FrameType.MESSAGE, [b"m" * 30]),
    ]


def test_half_a_frame_yields_nothing_yet_and_no_empty_run() -> None:
    reader = FrameRuns()

    assert reader.feed(OK_FRAME + MESSAGE[:-1]) == [(FrameType.RESPONSE, [b"OK"])]
    assert reader.feed(MESSAGE[-1:]) == [(FrameType.MESSAGE, [b"m" * 30])]


def test_frames_may_be_empty_but_for_messages() -> None:
    assert FrameRuns().feed(encode_frame(FrameType.RESPONSE, b"")) == [(FrameType.RESPONSE, [b""])]


@given(FRAMES, st.lists(st.integers(0, 1000), max_size=12))
def test_frames_do_not_depend_on_how_the_bytes_are_split(frames: list[Frame], cuts: list[int]) -> None:
    data = b"".join(encode_frame(frame.type, frame.payload) for frame in frames)

    assert read(cut(data, cuts)) == (frames, None)


@given(st.binary(max_size=200), st.lists(st.integers(0, 1000), max_size=5))
def test_any_bytes_are_frames_or_a_stream_error(data: bytes, cuts: list[int]) -> None:
    frames, reason = read(cut(data, cuts))

    assert sum(8 + len(frame.payload) for frame in frames) <= len(data)
    assert reason is None or reason


@pytest.mark.parametrize(
    ("header", "reason"),
    [
        (struct.pack(">ii", -1, 0), "frame size -1 is below 4"),
        (struct.pack(">ii", -(2**31), 2), "frame size -2147483648 is below 4"),
        (struct.pack(">ii", 0, 0), "frame size 0 is below 4"),
        (struct.pack(">ii", 3, 0), "frame size 3 is below 4"),
        (struct.pack(">ii", 2**31 - 1, 2), "frame of 2147483651 bytes exceeds the limit of 4096"),
        (struct.pack(">ii", 4093, 2), "frame of 4097 bytes exceeds the limit of 4096"),
        (struct.pack(">ii", 10, 3), "unknown frame type 3"),
        (struct.pack(">ii", 10, -1), "unknown frame type -1"),
        (struct.pack(">ii", 29, 2), "message of 25 bytes is shorter than its header of 26"),
    ],
)
def test_a_bad_header_is_refused_before_its_data_comes(header: bytes, reason: str) -> None:
    assert read([header]) == ([], reason)
    assert read([OK_FRAME + header]) == ([Frame(FrameType.RESPONSE, b"OK")], reason)


def test_the_largest_frame_is_taken() -> None:
    largest = encode_frame(FrameType.MESSAGE, b"x" * 4088)

    assert read([largest[:100], largest[100:]]) == ([Frame(FrameType.MESSAGE, b"x" * 4088)], None)


def test_nothing_is_kept_after_an_error() -> None:
    reader = FrameRuns()
    with pytest.raises(StreamError):
        reader.feed(struct.pack(">ii", -1, 0) + b"x" * 1000)

    assert reader.error is not None
    with pytest.raises(StreamError):
        reader.feed(OK_FRAME)


def test_a_long_frame_in_small_pieces_costs_little_more_than_itself() -> None:
    frame = encode_frame(FrameType.MESSAGE, bytes(1_000_000))
    reader = FrameRuns()
    tracemalloc.start()

    runs = [run for at in range(0, len(frame), 100) for run in reader.feed(frame[at : at + 100])]

    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert [len(payload) for _, run in runs for payload in run] == [1_000_000]
    assert peak_bytes < 5_000_000


@given(FRAMES)
def test_both_readers_agree(frames: list[Frame]) -> None:
    data = b"".join(encode_frame(frame.type, frame.payload) for frame in frames)

    assert read([data])[0] == FrameReader().feed(data)
