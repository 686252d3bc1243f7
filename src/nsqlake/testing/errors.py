"""Errors of the testing tools.

NsqlakeError
├── NotReachedError      what a test waited for did not come
├── NotSettledError      clients and broker went on and on, or one of their loops is blocked
└── RealClockError       a clock that cannot be moved was to be moved
"""

from nsqlake.errors import NsqlakeError

__all__ = ["NotReachedError", "NotSettledError", "RealClockError"]


class NotReachedError(NsqlakeError, TimeoutError):
    """What a test waited for did not come; says what there was instead."""

    def __init__(self, wanted: str, *, found: object, limit_s: float) -> None:
        super().__init__(f"not within {limit_s:g} s: {wanted}; there is {found}")
        self.wanted, self.found, self.limit_s = wanted, found, limit_s


class NotSettledError(NsqlakeError, TimeoutError):
    """The clock could not be moved, for there was no moment at which nothing happened."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"no rest to move the clock in: {reason}")
        self.reason = reason


class RealClockError(NsqlakeError):
    """The nsqd was started without a clock that a test may move."""

    def __init__(self) -> None:
        super().__init__("this nsqd has the real clock; start it with running_nsqd(clock=ManualClock())")
