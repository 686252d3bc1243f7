"""The entries of a channel's journal."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nsqlake.nsqd.core.journal import (
    JOURNAL_MAGIC,
    Entry,
    Kind,
    PendingEntries,
    decode_journal,
    encode_batch,
    intact_bytes,
)

SALT = 0x5A17
ENTRIES = st.lists(
    st.tuples(st.sampled_from(list(Kind)), *[st.integers(0, 2**64 - 1)] * 3), min_size=1, max_size=5
)


def decoded(data: bytes, salt: int = SALT) -> list[Entry]:
    return list(decode_journal(data, salt))


@given(st.lists(ENTRIES, max_size=4))
def test_batches_are_read_back_as_they_were(batches: list[list[Entry]]) -> None:
    data = JOURNAL_MAGIC + b"".join(encode_batch(batch, SALT) for batch in batches)

    assert decoded(data) == [entry for batch in batches for entry in batch]
    assert intact_bytes(data, SALT) == (len(data) if batches else 0)


@given(ENTRIES, ENTRIES, st.integers(0, 10**6))
def test_flipped_bit_ends_the_reading_before_its_batch(
    first: list[Entry], second: list[Entry], bit: int
) -> None:
    begin = JOURNAL_MAGIC + encode_batch(first, SALT)
    damaged = bytearray(encode_batch(second, SALT))
    damaged[bit // 8 % len(damaged)] ^= 1 << bit % 8

    assert decoded(begin + damaged + encode_batch(first, SALT))[: len(first)] == first
    assert len(decoded(begin + damaged)) == len(first)
    assert intact_bytes(begin + damaged, SALT) == len(begin)


@given(ENTRIES, ENTRIES, st.integers(1, 10**6))
def test_torn_batch_is_left_out(first: list[Entry], second: list[Entry], cut: int) -> None:
    whole, last = JOURNAL_MAGIC + encode_batch(first, SALT), encode_batch(second, SALT)

    torn = (whole + last)[: -(cut % len(last) + 1)]

    assert decoded(torn) == first


@pytest.mark.parametrize("data", [b"", b"NQ", b"XXXX" + encode_batch([(1, 2, 3, 4)], SALT)])
def test_other_files_hold_no_entries(data: bytes) -> None:
    assert decoded(data) == []
    assert intact_bytes(data, SALT) == 0


def test_journal_of_another_channel_holds_no_entries() -> None:
    data = JOURNAL_MAGIC + encode_batch([(1, 2, 3, 4)], SALT)

    assert decoded(data, SALT + 1) == []


def test_batch_that_is_no_whole_number_of_entries_is_damaged() -> None:
    batch = encode_batch([(1, 2, 3, 4)], SALT)
    short = (24).to_bytes(4, "big") + batch[4:-1]

    assert decoded(JOURNAL_MAGIC + short) == []


def test_runs_that_follow_each_other_become_one_entry() -> None:
    pending = PendingEntries()
    for first in (10, 15, 20):
        pending.deliver(first, 5)
    pending.deliver(40, 1)
    pending.finish(10, 2)
    pending.finish(12, 1)

    assert pending.take() == [
        (Kind.DELIVER, 10, 15, 0),
        (Kind.DELIVER, 40, 1, 0),
        (Kind.FINISH, 10, 3, 0),
    ]


def test_deliveries_come_first_and_finishes_last() -> None:
    pending = PendingEntries()
    pending.finish(1, 1)
    pending.wait(2, 1, 99)
    pending.attempt(2, 2)
    pending.absorb(7, 3, 50)
    pending.deliver(4, 1)

    kinds = [entry[0] for entry in pending.take()]

    assert kinds == [Kind.DELIVER, Kind.WAIT, Kind.ATTEMPT, Kind.ABSORB, Kind.FINISH]


def test_only_deliveries_and_finishes_may_wait_to_be_written() -> None:
    pending = PendingEntries()
    pending.deliver(1, 1)
    pending.finish(1, 1)
    assert pending
    assert not pending.is_urgent

    pending.wait(2, 1, 0)

    assert pending.is_urgent


def test_reset_makes_everything_before_it_pointless() -> None:
    pending = PendingEntries()
    pending.deliver(1, 1)
    pending.wait(1, 1, 0)
    pending.reset(50, 60)
    pending.deliver(50, 2)

    assert pending.take() == [(Kind.RESET, 50, 60, 0), (Kind.DELIVER, 50, 2, 0)]


def test_nothing_is_pending_after_taking_or_clearing() -> None:
    pending = PendingEntries()
    pending.finish(1, 1)
    pending.take()
    assert not pending

    pending.attempt(1, 1)
    pending.clear()

    assert not pending
    assert pending.take() == []


def test_the_highest_commit_comes_last_in_a_batch() -> None:
    pending = PendingEntries()
    pending.commit(7)
    pending.commit(5)
    assert pending
    assert not pending.is_urgent
    pending.deliver(9, 2)
    pending.finish(9, 1)

    assert pending.take() == [(Kind.DELIVER, 9, 2, 0), (Kind.FINISH, 9, 1, 0), (Kind.COMMIT, 7, 0, 0)]
    assert not pending


def test_a_commit_before_a_reset_is_pointless() -> None:
    pending = PendingEntries()
    pending.commit(70)
    pending.reset(5, 5)

    assert pending.take() == [(Kind.RESET, 5, 5, 0)]
