"""Publishes of one connection that wait for their outcome, answered in the order they came."""

from collections import deque
from collections.abc import Callable

from nsqlake.wire.errors import ClientError
from nsqlake.wire.frames import OK_FRAME, FrameType, encode_frame

__all__ = ["Answers", "PublishAnswer"]


class PublishAnswer:
    """The outcome of one or more publish commands."""

    __slots__ = ("_answers", "_commands", "_name", "payload")

    def __init__(self, answers: "Answers", name: bytes, commands: int) -> None:
        self._answers, self._name, self._commands = answers, name, commands
        self.payload: bytes | None = None

    def succeed(self) -> None:
        answers = self._answers
        if self._commands == 1 and len(answers.queue) == 1 and answers.on_empty is None:
            answers.queue.clear()
            answers.send(OK_FRAME)
            return
        self.payload = OK_FRAME if self._commands == 1 else OK_FRAME * self._commands
        self._answers.settle()

    def fail(self, reason: str, code: str = "") -> None:
        """Not fatal: the client may try again, on the same connection, when the cause is gone."""
        name = self._name.decode()
        error = ClientError(code or f"E_{name}_FAILED", f"{name} failed {reason}", fatal=False)
        self.payload = encode_frame(FrameType.ERROR, error.payload) * self._commands
        self._answers.settle()


class Answers:
    """`send` gets answers as soon as all earlier ones are known."""

    __slots__ = ("_lone", "on_empty", "queue", "send")

    def __init__(self, send: Callable[[bytes], None]) -> None:
        self.queue: deque[PublishAnswer] = deque()
        self.send = send
        self.on_empty: Callable[[], None] | None = None
        self._lone = PublishAnswer(self, b"PUB", 1)

    def __bool__(self) -> bool:
        return bool(self.queue)

    def expect(self, name: bytes, commands: int) -> PublishAnswer:
        answer = PublishAnswer(self, name, commands)
        self.queue.append(answer)
        return answer

    def expect_one(self) -> PublishAnswer:
        """`expect` of one PUB; most wait for no other, and share one object that is used again and again."""
        if self.queue:
            return self.expect(b"PUB", 1)
        answer = self._lone
        answer.payload = None
        self.queue.append(answer)
        return answer

    def append(self, frame: bytes) -> None:
        """The answer to another command, behind those that are yet to come."""
        if self.queue:
            self.expect(b"", 1).payload = frame
        else:
            self.send(frame)

    def settle(self) -> None:
        queue = self.queue
        ready: list[bytes] = []
        while queue and queue[0].payload is not None:
            payload = queue.popleft().payload
            assert payload is not None
            ready.append(payload)
        if ready:
            self.send(ready[0] if len(ready) == 1 else b"".join(ready))
        if not queue and self.on_empty is not None:
            on_empty, self.on_empty = self.on_empty, None
            on_empty()
