"""Creating, deleting, emptying and pausing channels."""

from nsqlake.nsqd.http.arguments import channel_names, find_channel, find_topic
from nsqlake.nsqd.http.endpoints import CHANNEL, TOPIC, Access, Endpoint, Parameter
from nsqlake.nsqd.http.positions import FROM, start_of
from nsqlake.nsqd.http.refusals import OUTSIDE, UNAVAILABLE, within_log
from nsqlake.nsqd.http.services import Services
from nsqlake.runtime.http import Handler, Request, Response

__all__ = ["CHANNEL_ERRORS", "endpoints"]

NAME_ERRORS = (
    (400, "MISSING_ARG_TOPIC"),
    (400, "INVALID_ARG_TOPIC"),
    (400, "MISSING_ARG_CHANNEL"),
    (400, "INVALID_ARG_CHANNEL"),
    (404, "TOPIC_NOT_FOUND"),
)
CHANNEL_ERRORS = (*NAME_ERRORS, (404, "CHANNEL_NOT_FOUND"))


class _Channels:
    """The handlers."""

    def __init__(self, services: Services) -> None:
        self._broker = services.broker

    async def create(self, request: Request) -> Response:
        topic, channel = channel_names(request)
        start = start_of(request)
        with within_log():
            await self._broker.open_channel(find_topic(self._broker, topic), channel, start)
        return Response()

    async def delete(self, request: Request) -> Response:
        await self._broker.delete_channel(find_channel(self._broker, request))
        return Response()

    async def empty(self, request: Request) -> Response:
        await self._broker.empty_channel(find_channel(self._broker, request))
        return Response()

    async def pause(self, request: Request) -> Response:
        await self._broker.set_paused(find_channel(self._broker, request), True)
        return Response()

    async def unpause(self, request: Request) -> Response:
        await self._broker.set_paused(find_channel(self._broker, request), False)
        return Response()


def endpoints(services: Services) -> list[Endpoint]:
    channels = _Channels(services)
    return [
        _endpoint(
            "create",
            channels.create,
            "Make a channel on a topic that exists",
            (*NAME_ERRORS, (400, "INVALID_ARG_FROM"), OUTSIDE),
            FROM,
        ),
        _endpoint("delete", channels.delete, "Delete a channel; its consumers are disconnected"),
        _endpoint("empty", channels.empty, "Drop all messages of a channel, those in flight too"),
        _endpoint("pause", channels.pause, "Deliver no messages to the consumers"),
        _endpoint("unpause", channels.unpause, "Deliver messages again"),
    ]


def _endpoint(
    verb: str,
    handler: Handler,
    summary: str,
    errors: tuple[tuple[int, str], ...] = CHANNEL_ERRORS,
    *parameters: Parameter,
) -> Endpoint:
    return Endpoint(
        method="POST",
        path=f"/channel/{verb}",
        handler=handler,
        access=Access.ADMIN,
        tag="channels",
        summary=summary,
        description="Durable when it is answered.",
        parameters=(TOPIC, CHANNEL, *parameters),
        errors=(*errors, *UNAVAILABLE),
        aliases=(f"/{verb}_channel",),
    )
