"""Errors of nsqlookupd.

NsqlakeError
└── RegistrationLimitError    one topic or channel too many: limit
"""

from nsqlake.errors import NsqlakeError

__all__ = ["RegistrationLimitError"]


class RegistrationLimitError(NsqlakeError):
    """Nothing was registered; what was there stays."""

    def __init__(self, limit: int, whose: str) -> None:
        super().__init__(f"limit of {limit} registrations {whose} reached")
        self.limit, self.whose = limit, whose
