import asyncio

import pytest

from nsqlake.cluster.asking import Answers, ask_all
from nsqlake.cluster.errors import NobodyAnsweredError, RequestError


class Server:
    """Answers after all are asked, so that only questions at the same time are ever answered."""

    def __init__(self, count: int) -> None:
        self._barrier = asyncio.Barrier(count)

    async def answer(self, value: int) -> int:
        await self._barrier.wait()
        if value < 0:
            raise RequestError(str(value), method="GET", url="http://h/", reason="failed")
        return 10 // value


async def ask(*values: int) -> Answers[int]:
    server = Server(len(values))
    return await ask_all(server.answer(value) for value in values)


def test_all_are_asked_at_once_and_answers_keep_their_order() -> None:
    assert asyncio.run(ask(5, 2, 1)).found == [2, 5, 10]


def test_those_that_fail_do_not_spoil_the_others() -> None:
    answers = asyncio.run(ask(-1, 2, -3))

    assert answers.found == [5]
    assert [error.address for error in answers.errors] == ["-1", "-3"]
    assert answers.require_any("nsqd") == [5]


def test_no_answer_at_all_is_an_error() -> None:
    answers = asyncio.run(ask(-1))

    with pytest.raises(NobodyAnsweredError) as caught:
        answers.require_any("nsqd")
    assert caught.value.errors == tuple(answers.errors)


def test_error_of_another_kind_is_raised() -> None:
    with pytest.raises(ExceptionGroup, match="unhandled"):
        asyncio.run(ask(0, 1))
