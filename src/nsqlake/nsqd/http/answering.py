"""Answers that are there, come later or have to be awaited, all in one way."""

import asyncio
from collections.abc import Awaitable

from nsqlake.nsqd.http.failures import FAILURES, refused
from nsqlake.runtime.http import Handler, Later, Request, Response

__all__ = ["Answer", "reporting_failures", "settle"]

Answer = Response | Later | Awaitable[Response]


async def settle(answer: Answer) -> Response:
    """The response, when it comes."""
    if isinstance(answer, Response):
        return answer
    if isinstance(answer, Later):
        coming: asyncio.Future[Response] = asyncio.get_running_loop().create_future()
        answer.hand_to(lambda response: None if coming.done() else coming.set_result(response))
        return await coming
    return await answer


def reporting_failures(handler: Handler) -> Handler:
    """`handler`, whose errors of the disk and of the broker are answered with their reason."""

    def handle(request: Request) -> Answer:
        try:
            answer = handler(request)
        except FAILURES as error:
            raise refused(error) from error
        return answer if isinstance(answer, Response | Later) else finish(answer)

    async def finish(answer: Awaitable[Response]) -> Response:
        try:
            return await answer
        except FAILURES as error:
            raise refused(error) from error

    return handle
