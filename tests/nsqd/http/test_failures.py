"""`refusal` and `refused`."""

import errno

import pytest

from nsqlake.nsqd.broker import CreationError
from nsqlake.nsqd.http.failures import Failure, refusal, refused
from nsqlake.topiclog.errors import AppendError, LogClosedError, ReadError

PATH = "/secret/path"


@pytest.mark.parametrize(
    ("failure", "status", "code", "reason"),
    [
        (CreationError("exiting"), 503, "EXITING", "exiting"),
        (CreationError("draining"), 503, "DRAINING", "draining"),
        (
            CreationError("topic not created: disk full: x"),
            503,
            "DISK_FULL",
            "topic not created: disk full: x",
        ),
        (CreationError("too many topics", code="E_BAD_TOPIC"), 429, "TOO_MANY_TOPICS", "too many topics"),
        (AppendError("disk full: 7 bytes free"), 503, "DISK_FULL", "disk full: 7 bytes free"),
        (AppendError("sync failed: disk full"), 503, "SYNC_FAILED", "sync failed: disk full"),
        (OSError(errno.EROFS, "", PATH), 503, "READ_ONLY", "read-only file system"),
        (OSError(errno.EDQUOT, "", PATH), 503, "DISK_FULL", "disk full: disk quota exceeded"),
        (OSError(errno.EIO, "", PATH), 503, "STORAGE_FAILED", "input/output error"),
        (ReadError(PATH, OSError(errno.EIO, "")), 503, "STORAGE_FAILED", "input/output error"),
        (LogClosedError(PATH), 503, "EXITING", "exiting"),
    ],
)
def test_a_failure_becomes_an_honest_refusal(failure: Failure, status: int, code: str, reason: str) -> None:
    error = refused(failure)

    assert (error.status, error.code, error.reason) == (status, code, reason)


def test_what_is_being_deleted_is_not_the_fault_of_the_disk() -> None:
    assert refusal("is being deleted").code == "EXITING"
