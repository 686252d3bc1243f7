"""What can go wrong for a blocking client, besides what can for the others.

NsqClientError
├── CalledInEventLoopError    the call would stop the event loop it was made in
├── ForkedClientError         the client belongs to the parent process
└── CallTimeoutError          the call was not done in time
"""

from nsqlake.client.errors import NsqClientError


class CalledInEventLoopError(NsqClientError, RuntimeError):
    """A blocking call in a thread that runs an event loop: it would stop the loop, or wait for itself."""

    def __init__(self, call: str) -> None:
        super().__init__(f"{call} would block the event loop of this thread; use the asyncio client there")
        self.call = call


class ForkedClientError(NsqClientError, RuntimeError):
    """A client that a parent process made, used by its child."""

    def __init__(self, client: str, parent_pid: int, pid: int) -> None:
        super().__init__(f"{client} belongs to process {parent_pid}; make one in process {pid}")
        self.client, self.parent_pid, self.pid = client, parent_pid, pid


class CallTimeoutError(NsqClientError, TimeoutError):
    """A call that was not done in time; whether it still happens is not known."""

    retriable = True

    def __init__(self, call: str, limit_s: float) -> None:
        super().__init__(f"{call} was not done within {limit_s:g} s")
        self.call, self.limit_s = call, limit_s
