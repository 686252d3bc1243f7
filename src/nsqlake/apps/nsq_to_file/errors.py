"""Errors of nsq_to_file.

NsqlakeError
├── ArchiveError             a file cannot be made, written, synced, closed or moved: action, path, reason
├── InvalidNameError         no topic or channel can have this name: kind, name
└── MissingRevisionError     files will need numbers, and the format has no place for them
"""

import contextlib
from collections.abc import Iterator

from nsqlake.errors import NsqlakeError
from nsqlake.runtime.addresses import error_text


class ArchiveError(NsqlakeError):
    """What was not synced before is perhaps not on disk: its messages must not be finished."""

    def __init__(self, action: str, path: str, reason: str) -> None:
        super().__init__(f"{action} {path}: {reason}")
        self.action, self.path, self.reason = action, path, reason


class InvalidNameError(NsqlakeError):
    def __init__(self, kind: str, name: str) -> None:
        super().__init__(f"invalid {kind} name")
        self.kind, self.name = kind, name


class MissingRevisionError(NsqlakeError):
    def __init__(self, filename_format: str) -> None:
        super().__init__("missing <REV> in --filename-format when gzip, rotation, or work dir enabled")
        self.filename_format = filename_format


@contextlib.contextmanager
def archive_errors(action: str, path: str) -> Iterator[None]:
    """An OSError of the body becomes an ArchiveError."""
    try:
        yield
    except OSError as error:
        raise ArchiveError(action, path, error_text(error)) from error
