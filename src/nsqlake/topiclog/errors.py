"""What can go wrong in a topic's log.

TopicLogError
├── LogOpenError              path, errno: the directory cannot be made or read
├── CorruptBlockError         path, position, reason
├── OffsetOutOfRangeError     offset, first, next
├── AppendError               reason, errno, recoverable
├── ReadError                 path, errno: retriable
├── SyncError                 path, errno: closing could not make everything durable
└── LogClosedError            path
"""

import errno as errno_codes
import os

from nsqlake.errors import NsqlakeError

__all__ = [
    "AppendError",
    "CorruptBlockError",
    "LogClosedError",
    "LogOpenError",
    "OffsetOutOfRangeError",
    "ReadError",
    "SyncError",
    "TopicLogError",
    "describe",
]

_NO_ROOM = frozenset({errno_codes.ENOSPC, errno_codes.EDQUOT})
_NO_DESCRIPTORS = frozenset({errno_codes.EMFILE, errno_codes.ENFILE, errno_codes.ENOMEM})


def describe(error: OSError) -> str:
    """The operator's words for a failed system call."""
    text = os.strerror(error.errno).lower() if error.errno is not None else str(error)
    return f"disk full: {text}" if error.errno in _NO_ROOM else text


class TopicLogError(NsqlakeError):
    """Base class of what a topic's log raises."""


class LogOpenError(TopicLogError):
    """The log's directory could not be made, read or locked into shape."""

    def __init__(self, path: str, error: OSError) -> None:
        super().__init__(f"cannot open the log in {path}: {describe(error)}")
        self.path, self.errno = path, error.errno


class CorruptBlockError(TopicLogError):
    """A block's bytes are not what was written."""

    def __init__(self, path: str, position: int, reason: str) -> None:
        super().__init__(f"{path}: bad block at position {position}: {reason}")
        self.path, self.position, self.reason = path, position, reason


class OffsetOutOfRangeError(TopicLogError):
    """A read asked for an offset the log does not hold."""

    def __init__(self, offset: int, *, first: int, next_: int) -> None:
        super().__init__(f"offset {offset} is outside [{first}, {next_})")
        self.offset, self.first, self.next = offset, first, next_


class AppendError(TopicLogError):
    """Nothing was appended; `recoverable` says whether a later append may succeed by itself."""

    def __init__(self, reason: str, *, errno: int | None = None, recoverable: bool = False) -> None:
        super().__init__(reason)
        self.reason, self.errno, self.recoverable = reason, errno, recoverable

    @property
    def retriable(self) -> bool:  # type: ignore[override]
        """A full disk gets empty again; a broken one does not."""
        return self.recoverable

    @classmethod
    def from_os(cls, error: OSError, *, recoverable: bool = False) -> "AppendError":
        """The refusal for a failed call: a lack of room or of descriptors passes, anything else stays."""
        passing = error.errno in _NO_ROOM or error.errno in _NO_DESCRIPTORS
        return cls(describe(error), errno=error.errno, recoverable=recoverable or passing)


class ReadError(TopicLogError):
    """A segment cannot be read just now; its messages are neither lost nor skipped."""

    retriable = True

    def __init__(self, path: str, error: OSError) -> None:
        super().__init__(f"cannot read {path}: {describe(error)}")
        self.path, self.errno = path, error.errno


class SyncError(TopicLogError):
    """Closing could not make everything durable: the stop was not a clean one."""

    def __init__(self, path: str, error: OSError) -> None:
        super().__init__(f"cannot sync the log in {path}: {describe(error)}")
        self.path, self.errno = path, error.errno


class LogClosedError(TopicLogError):
    """The log was closed or deleted before this call."""

    def __init__(self, path: str) -> None:
        super().__init__(f"the log in {path} is closed")
        self.path = path
