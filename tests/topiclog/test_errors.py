import errno

import pytest

from nsqlake.errors import NsqlakeError
from nsqlake.topiclog.errors import (
    AppendError,
    CorruptBlockError,
    LogClosedError,
    LogOpenError,
    OffsetOutOfRangeError,
    ReadError,
    SyncError,
    TopicLogError,
)


@pytest.mark.parametrize(
    ("code", "reason"),
    [(errno.ENOSPC, "disk full: no space left on device"), (errno.EDQUOT, "disk full: disk quota exceeded")],
)
def test_a_full_disk_is_named_and_passes(code: int, reason: str) -> None:
    error = AppendError.from_os(OSError(code, "whatever"))

    assert (error.reason, error.errno, error.recoverable, error.retriable) == (reason, code, True, True)


def test_a_lack_of_descriptors_passes() -> None:
    assert AppendError.from_os(OSError(errno.EMFILE, "whatever")).recoverable


def test_any_other_error_stays() -> None:
    error = AppendError.from_os(OSError(errno.EIO, "whatever"))

    assert (error.reason, error.recoverable, error.retriable) == ("input/output error", False, False)


def test_messages_are_made_of_the_fields() -> None:
    broken = OSError(errno.EACCES, "whatever")

    assert str(CorruptBlockError("a.log", 7, "checksum failed")) == (
        "a.log: bad block at position 7: checksum failed"
    )
    assert str(OffsetOutOfRangeError(1, first=2, next_=9)) == "offset 1 is outside [2, 9)"
    assert str(LogClosedError("orders")) == "the log in orders is closed"
    assert str(LogOpenError("orders", broken)) == "cannot open the log in orders: permission denied"
    assert str(ReadError("a.log", broken)) == "cannot read a.log: permission denied"
    assert str(SyncError("orders", broken)) == "cannot sync the log in orders: permission denied"
    assert str(LogOpenError("orders", OSError("no number"))) == "cannot open the log in orders: no number"


def test_all_errors_share_one_root() -> None:
    assert issubclass(AppendError, TopicLogError)
    assert issubclass(TopicLogError, NsqlakeError)
    assert ReadError.retriable
