"""Deferred messages of a channel: listed, and cancelled one by one or all together."""

from nsqlake.nsqd.http.answers import CancelledAnswer, DeferredAnswer, DeferredMessageAnswer
from nsqlake.nsqd.http.arguments import find_channel, integer
from nsqlake.nsqd.http.channel_endpoints import CHANNEL_ERRORS
from nsqlake.nsqd.http.endpoints import CHANNEL, JSON, TOPIC, Access, Endpoint, Kind, Parameter, Reply
from nsqlake.nsqd.http.refusals import UNAVAILABLE, check_running
from nsqlake.nsqd.http.schemas import ref
from nsqlake.nsqd.http.selection import ALL, ID, SELECTION_ERRORS, selected
from nsqlake.nsqd.http.services import Services
from nsqlake.nsqd.replay import MAX_DEFERRED_LISTED, DeferredMark, DeferredMarkError, list_deferred
from nsqlake.runtime.http import HttpError, Request, Response, json_response

__all__ = ["DEFAULT_LIMIT", "LIMIT", "Deferred", "endpoints"]

DEFAULT_LIMIT = 100
LIMIT = Parameter(
    name="limit",
    kind=Kind.INTEGER,
    example="100",
    description=f"How many, {DEFAULT_LIMIT} unless told, at most {MAX_DEFERRED_LISTED}.",
)
AFTER = Parameter(
    name="after",
    example="1731700000000000000-1731700000000000",
    description="Where to go on: `after` of the answer before.",
)


class Deferred:
    """The handlers."""

    def __init__(self, services: Services) -> None:
        self._broker = services.broker

    async def list(self, request: Request) -> Response:
        channel = find_channel(self._broker, request)
        limit = integer(request, "limit", DEFAULT_LIMIT, least=1, most=MAX_DEFERRED_LISTED)
        after = _mark(request)
        found = await list_deferred(channel, limit, after)
        messages = [
            DeferredMessageAnswer(
                id=each.id,
                offset=each.offset,
                due=each.due_ns,
                attempts=each.attempts,
                size=each.body_bytes,
            )
            for each in found
        ]
        return json_response(DeferredAnswer(messages, str(found[-1].mark) if len(found) == limit else None))

    async def cancel(self, request: Request) -> Response:
        channel = find_channel(self._broker, request)
        message_id = selected(request)
        check_running(self._broker)
        cancelled = await self._broker.cancel_deferred(channel, message_id)
        if message_id is not None and not cancelled:
            reason = f"no message {message_id} is deferred in this channel"
            raise HttpError(404, "MESSAGE_NOT_FOUND", reason=reason)
        return json_response(CancelledAnswer(cancelled))


def _mark(request: Request) -> DeferredMark | None:
    text = request.params.get("after")
    try:
        return None if text is None else DeferredMark.parse(text)
    except DeferredMarkError as error:
        raise HttpError(400, "INVALID_ARG_AFTER", reason=str(error)) from error


def endpoints(services: Services) -> list[Endpoint]:
    deferred = Deferred(services)
    return [
        Endpoint(
            method="GET",
            path="/channel/deferred",
            handler=deferred.list,
            access=Access.SUBSCRIBE,
            tag="messages",
            summary="Messages of a channel that wait for their time",
            description="Published with a delay or requeued with one, the next due first.",
            parameters=(TOPIC, CHANNEL, LIMIT, AFTER),
            replies={200: Reply(description="Messages.", content_type=JSON, schema=ref(DeferredAnswer))},
            errors=(*CHANNEL_ERRORS, (400, "INVALID_ARG_LIMIT"), (400, "INVALID_ARG_AFTER"), *UNAVAILABLE),
        ),
        Endpoint(
            method="POST",
            path="/channel/deferred/cancel",
            handler=deferred.cancel,
            access=Access.ADMIN,
            tag="messages",
            summary="Finish one deferred message, or all, without delivery",
            description="Other channels of the topic keep theirs.",
            parameters=(TOPIC, CHANNEL, ID, ALL),
            replies={
                200: Reply(
                    description="Durable; how many.",
                    content_type=JSON,
                    schema=ref(CancelledAnswer),
                    example={"cancelled": 1},
                )
            },
            errors=(*CHANNEL_ERRORS, *SELECTION_ERRORS, (404, "MESSAGE_NOT_FOUND"), *UNAVAILABLE),
        ),
    ]
