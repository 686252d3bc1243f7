"""What the daemon could not do, as an answer that says why.

| code | status | when |
|---|---|---|
| EXITING | 503 | the daemon stops, or the topic is being deleted |
| DRAINING | 503 | the daemon drains |
| DISK_FULL | 503 | no room; publishing goes on by itself when there is some again |
| READ_ONLY | 503 | the file system takes no writes |
| SYNC_FAILED | 503 | a sync failed: the topic takes no messages until the daemon restarts |
| STORAGE_FAILED | 503 | any other error of the disk |
| TOO_MANY_TOPICS | 429 | `--max-topics` |
"""

from nsqlake.nsqd.broker import CreationError
from nsqlake.runtime.http import HttpError
from nsqlake.topiclog.errors import TopicLogError, describe

__all__ = ["CODES", "FAILURES", "Failure", "refusal", "refused"]

Failure = CreationError | TopicLogError | OSError
FAILURES = (CreationError, TopicLogError, OSError)

# The first of these texts that is part of the reason decides.
_CODES_BY_TEXT = (
    ("sync failed", "SYNC_FAILED"),
    ("disk full", "DISK_FULL"),
    ("read-only", "READ_ONLY"),
    ("draining", "DRAINING"),
    ("exiting", "EXITING"),
    ("is closed", "EXITING"),
    ("being deleted", "EXITING"),
)
CODES = ("EXITING", "DRAINING", "DISK_FULL", "READ_ONLY", "SYNC_FAILED", "STORAGE_FAILED")


def refusal(reason: str) -> HttpError:
    """503 with the code that fits the reason."""
    code = next((code for text, code in _CODES_BY_TEXT if text in reason), "STORAGE_FAILED")
    return HttpError(503, code, reason=reason)


def refused(failure: Failure) -> HttpError:
    if isinstance(failure, CreationError):
        if failure.code:
            return HttpError(429, "TOO_MANY_TOPICS", reason=failure.reason)
        return refusal(failure.reason)
    if isinstance(failure, OSError):
        return refusal(describe(failure))
    code: int | None = getattr(failure, "errno", None)
    reason = getattr(failure, "reason", "")
    # The error's own text may name a path of this machine.
    return refusal(reason or (describe(OSError(code, "")) if code is not None else "exiting"))
