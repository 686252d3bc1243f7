"""Moving a channel over its topic's log: seek, and commit for whoever reads the log by offset."""

from nsqlake.nsqd.http.answers import MovedAnswer
from nsqlake.nsqd.http.arguments import find_channel, integer
from nsqlake.nsqd.http.channel_endpoints import CHANNEL_ERRORS
from nsqlake.nsqd.http.endpoints import CHANNEL, JSON, TOPIC, Access, Endpoint, Reply
from nsqlake.nsqd.http.log_endpoints import MAX_OFFSET, OFFSET
from nsqlake.nsqd.http.positions import TO, position
from nsqlake.nsqd.http.refusals import OUTSIDE, UNAVAILABLE, check_running, within_log
from nsqlake.nsqd.http.schemas import ref
from nsqlake.nsqd.http.services import Services
from nsqlake.runtime.http import Request, Response, json_response

__all__ = ["Replay", "endpoints"]

_MOVED = {
    200: Reply(
        description="Durable; the channel reads on at this offset.",
        content_type=JSON,
        schema=ref(MovedAnswer),
        example={"offset": 1731700000000000},
    )
}


class Replay:
    """The handlers."""

    def __init__(self, services: Services) -> None:
        self._broker = services.broker

    async def seek(self, request: Request) -> Response:
        channel = find_channel(self._broker, request)
        target = position(request, "to")
        check_running(self._broker)
        with within_log():
            return json_response(MovedAnswer(await self._broker.seek(channel, target)))

    async def commit(self, request: Request) -> Response:
        channel = find_channel(self._broker, request)
        offset = integer(request, "offset", most=MAX_OFFSET)
        check_running(self._broker)
        with within_log():
            return json_response(MovedAnswer(await self._broker.commit(channel, offset)))


def endpoints(services: Services) -> list[Endpoint]:
    replay = Replay(services)
    return [
        Endpoint(
            method="POST",
            path="/channel/seek",
            handler=replay.seek,
            access=Access.ADMIN,
            tag="replay",
            summary="Let a channel read on somewhere else",
            description="What is in flight, requeued and deferred there is forgotten: a FIN, REQ "
            "or TOUCH of it "
            "fails. Consumers stay and get what lies behind the new position; delays of deferred "
            "messages hold. A position before the first retained message is refused: see --retention-time.",
            parameters=(TOPIC, CHANNEL, TO),
            replies=_MOVED,
            errors=(
                *CHANNEL_ERRORS,
                (400, "MISSING_ARG_TO"),
                (400, "INVALID_ARG_TO"),
                OUTSIDE,
                *UNAVAILABLE,
            ),
        ),
        Endpoint(
            method="POST",
            path="/channel/commit",
            handler=replay.commit,
            access=Access.SUBSCRIBE,
            tag="replay",
            summary="Finish all that lies before an offset",
            description="For a reader of the log that uses a channel to remember how far it is: "
            "the channel's depth "
            "is its lag. A channel never goes back by this; the answer says where it is. What consumers "
            "have in flight below the offset is finished.",
            parameters=(TOPIC, CHANNEL, OFFSET),
            replies=_MOVED,
            errors=(
                *CHANNEL_ERRORS,
                (400, "MISSING_ARG_OFFSET"),
                (400, "INVALID_ARG_OFFSET"),
                OUTSIDE,
                *UNAVAILABLE,
            ),
        ),
    ]
