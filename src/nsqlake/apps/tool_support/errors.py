"""Errors of the tools.

NsqlakeError
└── ToolError     a tool cannot go on: one log line, exit code 1
"""

from nsqlake.errors import NsqlakeError


class ToolError(NsqlakeError):
    """The message is the reason, ready to print."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason
