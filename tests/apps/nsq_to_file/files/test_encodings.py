import gzip
import zlib

from hypothesis import given
from hypothesis import strategies as st

from nsqlake.apps.nsq_to_file.files.encodings import GzipMembers, Plain


def test_plain_changes_nothing() -> None:
    encoding = Plain()

    assert encoding.encode(b"one\n") + encoding.complete() == b"one\n"


def test_a_completed_member_can_be_read_without_what_follows() -> None:
    encoding = GzipMembers(6)

    first = encoding.encode(b"one\n") + encoding.complete()
    unfinished = encoding.encode(b"two\n" * 100_000)

    assert gzip.decompress(first) == b"one\n"
    reader = zlib.decompressobj(31)
    assert reader.decompress(first + unfinished) == b"one\n"
    assert reader.eof


def test_completing_twice_adds_nothing() -> None:
    encoding = GzipMembers(6)
    encoding.encode(b"one\n")
    encoding.complete()

    assert encoding.complete() == b""


def test_a_file_without_lines_is_valid_all_the_same() -> None:
    assert gzip.decompress(GzipMembers(6).complete()) == b""


def test_the_level_counts() -> None:
    data = bytes(i * i % 251 for i in range(50_000)) + b"abc" * 5_000
    sizes = []
    for level in (1, 9):
        encoding = GzipMembers(level)
        sizes.append(len(encoding.encode(data) + encoding.complete()))

    assert sizes[0] > sizes[1]


@given(st.lists(st.one_of(st.binary(max_size=50), st.none())))
def test_whatever_is_encoded_and_completed_when_comes_back(steps: list[bytes | None]) -> None:
    encoding = GzipMembers(1)
    written = b"".join(encoding.complete() if step is None else encoding.encode(step) for step in steps)

    whole = written + encoding.complete()

    assert gzip.decompress(whole) == b"".join(step for step in steps if step is not None)
