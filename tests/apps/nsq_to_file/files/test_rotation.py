import pytest

from nsqlake.apps.nsq_to_file.files.rotation import BEFORE_THE_FIRST, FileState, Reason, Revision, Rotation

OPEN = FileState("a", opened_ns=1_000, size_bytes=10)


@pytest.mark.parametrize(
    ("rotation", "current", "name", "now_ns", "expected"),
    [
        (Rotation(), OPEN, "a", 10**15, None),
        (Rotation(), OPEN, "b", 1_000, Reason.NEW_NAME),
        (Rotation(interval_ns=50), OPEN, "a", 1_050, None),
        (Rotation(interval_ns=50), OPEN, "a", 1_051, Reason.TOO_OLD),
        (Rotation(interval_ns=-50), OPEN, "a", 10**15, None),
        (Rotation(size_bytes=10), OPEN, "a", 1_000, None),
        (Rotation(size_bytes=9), OPEN, "a", 1_000, Reason.TOO_LARGE),
        (Rotation(size_bytes=-9), OPEN, "a", 1_000, None),
    ],
)
def test_when_another_file_is_needed(
    rotation: Rotation, current: FileState, name: str, now_ns: int, expected: Reason | None
) -> None:
    assert rotation.reason(current, name, now_ns) is expected


@pytest.mark.parametrize(
    ("rotation", "expected"),
    [
        (Rotation(), False),
        (Rotation(interval_ns=1), True),
        (Rotation(size_bytes=1), True),
        (Rotation(-1, -1), False),
    ],
)
def test_what_counts_as_rotation(rotation: Rotation, expected: bool) -> None:
    assert rotation.is_on is expected


@pytest.mark.parametrize(
    ("last", "name", "expected"),
    [(BEFORE_THE_FIRST, "a", 0), (Revision("a", 0), "a", 1), (Revision("a", 7), "b", 0)],
)
def test_revisions_start_again_with_every_name(last: Revision, name: str, expected: int) -> None:
    assert last.next_for(name) == Revision(name, expected)


def test_sizes_are_told_with_their_limit() -> None:
    assert Rotation(size_bytes=10).size_text(15) == "currently 15 bytes (> 10)"
