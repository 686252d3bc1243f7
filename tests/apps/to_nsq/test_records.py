import pytest
from hypothesis import given
from hypothesis import strategies as st

from nsqlake.apps.to_nsq.records import RecordSplitter, RecordTooLongError


def split(*chunks: bytes, delimiter: bytes = b"\n") -> list[bytes]:
    splitter = RecordSplitter(delimiter)
    return [record for chunk in chunks for record in splitter.feed(chunk)] + [splitter.end()]


def test_a_last_record_without_delimiter_is_kept_whole() -> None:
    assert split(b"one\n\ntwo\nthree") == [b"one", b"", b"two", b"three"]
    assert split(b"x") == [b"x"]


def test_a_final_delimiter_ends_the_last_record() -> None:
    assert split(b"one\n") == [b"one", b""]


def test_any_single_byte_may_delimit() -> None:
    assert split(b"a\x00b\nc\x00", delimiter=b"\x00") == [b"a", b"b\nc", b""]


@given(st.binary(), st.lists(st.integers(0, 40)))
def test_records_do_not_depend_on_how_the_bytes_arrive(data: bytes, sizes: list[int]) -> None:
    chunks, rest = [], data
    for size in sizes:
        chunks.append(rest[:size])
        rest = rest[size:]

    assert split(*chunks, rest) == data.split(b"\n")


def test_an_endless_record_is_refused() -> None:
    splitter = RecordSplitter(b"\n", limit_bytes=10)
    splitter.feed(b"12345")

    with pytest.raises(RecordTooLongError, match="longer than 10 bytes"):
        splitter.feed(b"678901")
