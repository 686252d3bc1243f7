"""What a thread waits for: settled by the loop's thread, looked at by another."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures._base import FINISHED, RUNNING
from threading import Condition, Lock
from typing import Any

from nsqlake.client.errors import PublishNotSentError, PublishUnknownError


class Waiter:
    """One publish that one thread waits for; a lock is the cheapest thing that can be waited for."""

    __slots__ = ("_error", "_is_done", "_lock")

    def __init__(self) -> None:
        self._lock = Lock()
        self._lock.acquire()
        self._is_done = False
        self._error: BaseException | None = None

    def done(self) -> bool:
        return self._is_done

    def set_result(self, _result: None, /) -> None:
        self._is_done = True
        self._lock.release()

    def set_exception(self, error: BaseException, /) -> None:
        self._is_done, self._error = True, error
        self._lock.release()

    def wait(self, topic: str, limit_s: float) -> None:
        """Until it is settled; raises its error. Who is interrupted leaves the publish to itself."""
        try:
            is_settled = self._lock.acquire(timeout=limit_s)
        except BaseException:
            self._is_done = True
            raise
        if not is_settled:
            self._is_done = True
            raise PublishUnknownError(topic, None, f"no outcome within {limit_s:g} s")
        if self._error is not None:
            raise self._error


class Unanswered:
    """How much was published without waiting; a publisher waits here while it is too much."""

    def __init__(self, max_count: int, max_bytes: int) -> None:
        self._max_count, self._max_bytes = max_count, max_bytes
        self._changed = Condition(Lock())
        self.count = 0
        self.size_bytes = 0
        self._waiting = 0

    def enter(self, topic: str, size_bytes: int, *, block: bool, limit_s: float) -> None:
        with self._changed:
            if not self._fits(size_bytes) and not (block and self._wait(size_bytes, limit_s)):
                raise PublishNotSentError(topic, None, f"queue full: {self.count} are unanswered")
            self.count += 1
            self.size_bytes += size_bytes

    def leave(self, size_bytes: int) -> None:
        with self._changed:
            self.count -= 1
            self.size_bytes -= size_bytes
            if self._waiting:
                self._changed.notify_all()

    def _wait(self, size_bytes: int, limit_s: float) -> bool:
        self._waiting += 1
        try:
            return self._changed.wait_for(lambda: self._fits(size_bytes), limit_s)
        finally:
            self._waiting -= 1

    def _fits(self, size_bytes: int) -> bool:
        return not self.count or (
            self.count < self._max_count and self.size_bytes + size_bytes <= self._max_bytes
        )


class PublishFuture(Future[None]):
    """A future that nobody need wait for, and that gives its room back when it is settled.

    Most are never looked at before they are settled, so the condition that others wait on is made when it is
    asked for. The state is set before the condition is looked for, and whoever waits makes the condition
    before it looks at the state: one of the two sees the other.
    """

    def __init__(self, unanswered: Unanswered, size_bytes: int) -> None:
        # Not Future's own: making a condition costs as much as the rest of a publish.
        self._state = RUNNING
        self._result = None
        self._exception = None
        self._waiters: list[Any] = []
        self._done_callbacks: list[Callable[[Future[None]], object]] = []
        self._unanswered, self._size_bytes = unanswered, size_bytes

    @property
    def _condition(self) -> Condition:  # type: ignore[override]
        condition: Condition = self.__dict__.setdefault("_made_condition", Condition())
        return condition

    def cancel(self) -> bool:
        """A publish cannot be taken back."""
        return False

    def done(self) -> bool:
        return self._state == FINISHED

    def set_result(self, result: None) -> None:
        self._settle(None)

    def set_exception(self, exception: BaseException | None) -> None:
        self._settle(exception)

    def _settle(self, exception: BaseException | None) -> None:
        self._exception = exception
        self._state = FINISHED
        self._unanswered.leave(self._size_bytes)
        condition = self.__dict__.get("_made_condition")
        if condition is None:
            return
        with condition:
            for waiter in self._waiters:
                (waiter.add_result if exception is None else waiter.add_exception)(self)
            condition.notify_all()
        self._invoke_callbacks()  # type: ignore[attr-defined]
