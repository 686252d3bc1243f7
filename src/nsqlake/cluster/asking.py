"""Asking many servers the same question at the same time."""

import asyncio
from collections.abc import Coroutine, Iterable
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from nsqlake.cluster.errors import NobodyAnsweredError, RequestError

T = TypeVar("T")


@dataclass
class Answers(Generic[T]):
    """What came back, in the order of the questions, and the errors of those that failed."""

    found: list[T] = field(default_factory=list)
    errors: list[RequestError] = field(default_factory=list)

    def require_any(self, kind: str) -> list[T]:
        """What was found; NobodyAnsweredError when nobody of this kind answered."""
        if not self.found:
            raise NobodyAnsweredError(kind, self.errors)
        return self.found


async def ask_all(questions: Iterable[Coroutine[Any, Any, T]]) -> Answers[T]:
    """Wait for all of them; any error but a RequestError is raised at once."""
    answers: Answers[T] = Answers()
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(_outcome(question)) for question in questions]
    for outcome in (task.result() for task in tasks):
        if isinstance(outcome, RequestError):
            answers.errors.append(outcome)
        else:
            answers.found.append(outcome)
    return answers


async def _outcome(question: Coroutine[Any, Any, T]) -> T | RequestError:
    try:
        return await question
    except RequestError as error:
        return error
