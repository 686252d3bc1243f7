"""Creating, deleting, emptying and pausing topics."""

from nsqlake.nsqd.http.arguments import find_topic, text, topic_name
from nsqlake.nsqd.http.endpoints import TOPIC, Access, Endpoint
from nsqlake.nsqd.http.failures import refusal
from nsqlake.nsqd.http.refusals import UNAVAILABLE
from nsqlake.nsqd.http.services import Services
from nsqlake.runtime.http import Handler, HttpError, Request, Response

__all__ = ["endpoints"]

_MISSING = (400, "MISSING_ARG_TOPIC")
_INVALID = (400, "INVALID_TOPIC")
_NOT_FOUND = (404, "TOPIC_NOT_FOUND")


class _Topics:
    """The handlers. Deleting and pausing look a name up without checking it, as NSQ does."""

    def __init__(self, services: Services) -> None:
        self._broker = services.broker

    async def create(self, request: Request) -> Response:
        topic = await self._broker.open_topic(topic_name(request))
        if topic.core.is_closed:
            raise refusal("exiting: the topic is being deleted")
        return Response()

    async def delete(self, request: Request) -> Response:
        # Not `find_topic`: one that could not be deleted is closed, and may be deleted again.
        topic = self._broker.topics.get(text(request, "topic"))
        if topic is None:
            raise HttpError(404, "TOPIC_NOT_FOUND")
        await self._broker.delete_topic(topic)
        return Response()

    async def empty(self, request: Request) -> Response:
        await self._broker.empty_topic(find_topic(self._broker, topic_name(request)))
        return Response()

    async def pause(self, request: Request) -> Response:
        await self._broker.set_paused(find_topic(self._broker, text(request, "topic")), True)
        return Response()

    async def unpause(self, request: Request) -> Response:
        await self._broker.set_paused(find_topic(self._broker, text(request, "topic")), False)
        return Response()


def endpoints(services: Services) -> list[Endpoint]:
    topics = _Topics(services)
    return [
        _endpoint(
            "create", topics.create, "Make a topic, if there is none", _INVALID, (429, "TOO_MANY_TOPICS")
        ),
        _endpoint("delete", topics.delete, "Delete a topic with its channels and messages", _NOT_FOUND),
        _endpoint("empty", topics.empty, "Drop what no channel has got yet", _INVALID, _NOT_FOUND),
        _endpoint("pause", topics.pause, "Let no messages flow to the channels", _NOT_FOUND),
        _endpoint("unpause", topics.unpause, "Let messages flow to the channels again", _NOT_FOUND),
    ]


def _endpoint(verb: str, handler: Handler, summary: str, *errors: tuple[int, str]) -> Endpoint:
    return Endpoint(
        method="POST",
        path=f"/topic/{verb}",
        handler=handler,
        access=Access.ADMIN,
        tag="topics",
        summary=summary,
        description="Durable when it is answered.",
        parameters=(TOPIC,),
        errors=(_MISSING, *errors, *UNAVAILABLE),
        aliases=(f"/{verb}_topic",),
    )
