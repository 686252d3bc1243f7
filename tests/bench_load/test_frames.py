import struct

import numpy as np
import pytest

from bench.load.errors import LoadError
from bench.load.frames import WORTH_SCANNING_BYTES, Cut, FrameCutter

HEARTBEAT_FRAME = struct.pack(">ii", 15, 0) + b"_heartbeat_"


def message(index: int, body: bytes) -> bytes:
    data = struct.pack(">qH", 1_700_000_000_000_000_000 + index, 1) + b"%016x" % index + body
    return struct.pack(">ii", 4 + len(data), 2) + data


def messages(sizes: list[int]) -> list[bytes]:
    return [message(index, b"x" * size) for index, size in enumerate(sizes)]


def cut(stream: bytes) -> tuple[Cut, list[bytes]]:
    buffer = bytearray(stream.ljust(WORTH_SCANNING_BYTES))
    cutter = FrameCutter(buffer)
    result = cutter.cut(len(stream))
    return result, [bytes(item) for item in cutter.ids(result.starts).tolist()]


def ids(count: int) -> list[bytes]:
    return [b"%016x" % index for index in range(count)]


@pytest.mark.parametrize(
    "sizes",
    [[200] * 3, [200] * 500, [100 + i * 37 % 201 for i in range(500)], [222] * 250 + [90] * 250],
    ids=["few", "equal", "mixed", "two-sizes"],
)
def test_all_whole_messages_are_found_in_order(sizes: list[int]) -> None:
    stream = b"".join(messages(sizes))

    result, found = cut(stream)

    assert found == ids(len(sizes))
    assert result.consumed == len(stream)


@pytest.mark.parametrize("sizes", [[200] * 40, list(range(100, 140))], ids=["equal", "mixed"])
def test_a_message_cut_anywhere_is_left_for_later(sizes: list[int]) -> None:
    frames = messages(sizes)
    whole = b"".join(frames[:-1])

    for length in range(len(frames[-1])):
        result, found = cut(whole + frames[-1][:length])

        assert found == ids(len(sizes) - 1)
        assert result.consumed == len(whole)


@pytest.mark.parametrize("sizes", [[200] * 100, list(range(100, 200))], ids=["equal", "mixed"])
@pytest.mark.parametrize("place", [0, 50, 100], ids=["first", "middle", "last"])
def test_heartbeats_between_messages_are_counted(sizes: list[int], place: int) -> None:
    frames = messages(sizes)
    frames.insert(place, HEARTBEAT_FRAME)

    result, found = cut(b"".join(frames))

    assert found == ids(len(sizes))
    assert result.heartbeats == 1


def test_a_body_that_looks_like_a_frame_is_not_taken_for_one() -> None:
    inner = message(7, b"inner")
    frames = [message(index, inner * (1 + index % 3)) for index in range(200)]

    result, found = cut(b"".join(frames))

    assert found == ids(200)
    assert result.consumed == sum(map(len, frames))


def test_responses_are_handed_over() -> None:
    close_wait = struct.pack(">ii", 14, 0) + b"CLOSE_WAIT"

    result, found = cut(b"".join(messages([200] * 30)) + close_wait)

    assert found == ids(30)
    assert result.responses == [b"CLOSE_WAIT"]


def test_an_error_frame_ends_the_load() -> None:
    text = b"E_FIN_FAILED FIN 0123456789abcdef failed ID not in flight"
    error = struct.pack(">ii", 4 + len(text), 1) + text

    with pytest.raises(LoadError, match="E_FIN_FAILED"):
        cut(error)


def test_any_split_of_a_stream_yields_the_same_messages() -> None:
    stream = b"".join(messages([100 + i * 53 % 201 for i in range(300)]))
    random = np.random.default_rng(5)
    kept, found = b"", []

    position = 0
    while position < len(stream):
        step = int(random.integers(1, 9000))
        kept += stream[position : position + step]
        position += step
        result, part = cut(kept)
        kept = kept[result.consumed :]
        found += part

    assert found == ids(300)
    assert kept == b""


def test_body_stamps_are_the_first_eight_bytes() -> None:
    stream = b"".join(message(index, struct.pack(">q", index * 1000) + b"rest") for index in range(5))
    buffer = bytearray(stream)
    cutter = FrameCutter(buffer)

    stamps = cutter.body_stamps(cutter.cut(len(stream)).starts)

    assert stamps.tolist() == [0, 1000, 2000, 3000, 4000]
