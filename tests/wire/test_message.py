"""Message frames: a run is byte for byte what its messages are one by one."""

import struct
from itertools import accumulate

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nsqlake.wire.message import (
    FRAME_OVERHEAD,
    ID_PAGE,
    encode_equal_run,
    encode_message,
    encode_mixed_run,
    id_digits,
)

FIRST_ID = (5 << 54) + 7 * ID_PAGE
STAMP_NS = 1_700_000_000_123_456_789


def one_by_one(bodies: list[bytes], stamps: list[int], first_id: int) -> bytes:
    return b"".join(
        encode_message(body, timestamp_ns=stamp, attempts=1, message_id=first_id + i)
        for i, (body, stamp) in enumerate(zip(bodies, stamps, strict=True))
    )


def records_of(bodies: list[bytes]) -> bytes:
    return b"".join(struct.pack(">I", len(body)) + body for body in bodies)


def starts_of(bodies: list[bytes], first: int = 0) -> list[int]:
    return list(accumulate([4 + len(body) for body in bodies], initial=first))


def test_frame_has_the_layout_of_the_protocol() -> None:
    frame = encode_message(b"body", timestamp_ns=STAMP_NS, attempts=3, message_id=0xABC)

    assert frame == struct.pack(">iiqH", 34, 2, STAMP_NS, 3) + b"0000000000000abc" + b"body"
    assert len(frame) == FRAME_OVERHEAD + 4


@pytest.mark.parametrize(("attempts", "on_the_wire"), [(65535, 65535), (65536, 0), (65537, 1)])
def test_attempts_wrap_like_nsqs(attempts: int, on_the_wire: int) -> None:
    frame = encode_message(b"x", timestamp_ns=0, attempts=attempts, message_id=1)

    assert int.from_bytes(frame[16:18], "big") == on_the_wire


def test_id_is_sixteen_lower_case_hex_digits() -> None:
    assert id_digits(0xDEADBEEF) == b"00000000deadbeef"
    assert id_digits((1 << 64) - 1) == b"f" * 16


@given(
    count=st.integers(1, 40),
    size=st.integers(1, 50),
    tail=st.integers(0, ID_PAGE - 1),
    lead=st.integers(0, 9),
    gap=st.integers(0, 60),
    has_own_stamps=st.booleans(),
)
def test_equal_run_is_the_same_as_message_by_message(
    count: int, size: int, tail: int, lead: int, gap: int, has_own_stamps: bool
) -> None:
    count = min(count, ID_PAGE - tail)
    bodies = [(b"%0*d" % (size, i))[-size:] for i in range(count)]
    data = bytes(lead) + bytes(gap).join(records_of([body]) for body in bodies)
    stamps = [STAMP_NS + 1000 * i * has_own_stamps for i in range(count)]
    given_stamps = np.array(stamps, np.int64) if has_own_stamps else STAMP_NS

    run = encode_equal_run(data, lead, 4 + size + gap, size, count, given_stamps, FIRST_ID + tail)

    assert bytes(run) == one_by_one(bodies, stamps, FIRST_ID + tail)
    assert len(run) == count * (FRAME_OVERHEAD + size)


@given(
    bodies=st.lists(st.binary(min_size=1, max_size=60), min_size=1, max_size=40),
    tail=st.integers(0, ID_PAGE - 40),
    has_own_stamps=st.booleans(),
)
def test_mixed_run_is_the_same_as_message_by_message(
    bodies: list[bytes], tail: int, has_own_stamps: bool
) -> None:
    stamps = [STAMP_NS + 1000 * i * has_own_stamps for i in range(len(bodies))]
    given_stamps = np.array(stamps, np.int64) if has_own_stamps else STAMP_NS
    data = b"lead" + records_of(bodies)

    run = encode_mixed_run(data, starts_of(bodies, 4), given_stamps, FIRST_ID + tail)

    assert bytes(run) == one_by_one(bodies, stamps, FIRST_ID + tail)


@pytest.mark.parametrize("count", [1, 12, 13, ID_PAGE])
def test_run_up_to_the_end_of_its_page_keeps_its_ids(count: int) -> None:
    bodies = [b"%04d" % i for i in range(count)]
    first_id = FIRST_ID + ID_PAGE - count

    run = encode_equal_run(records_of(bodies), 0, 8, 4, count, STAMP_NS, first_id)

    assert bytes(run) == one_by_one(bodies, [STAMP_NS] * count, first_id)


@pytest.mark.parametrize("size", [8161, 8162, 100_000])
@pytest.mark.parametrize("count", [2, 20])
def test_large_bodies_have_their_size_too(size: int, count: int) -> None:
    bodies = [b"x" * size] * count
    expected = one_by_one(bodies, [STAMP_NS] * count, FIRST_ID)

    equal = encode_equal_run(records_of(bodies), 0, 4 + size, size, count, STAMP_NS, FIRST_ID)
    mixed = encode_mixed_run(records_of(bodies), starts_of(bodies), STAMP_NS, FIRST_ID)

    assert bytes(equal) == expected
    assert bytes(mixed) == expected


def test_timestamps_as_the_log_stores_them_are_taken_as_they_are() -> None:
    bodies = [b"%02d" % i for i in range(30)]
    stamps = [STAMP_NS + i for i in range(30)]

    run = encode_equal_run(records_of(bodies), 0, 6, 2, 30, np.array(stamps, ">u8"), FIRST_ID)

    assert bytes(run) == one_by_one(bodies, stamps, FIRST_ID)
