"""Dead letters of a channel: listed, replayed, and after how many deliveries a message becomes one."""

from nsqlake.nsqd.core.dead_letters import DeadLetter, dead_topic_name
from nsqlake.nsqd.dead_letters import DeadLetterBusyError, DeadLetterError, NoDeadLetterError
from nsqlake.nsqd.http.answers import (
    DeadLetterAnswer,
    DeadLettersAnswer,
    MaxAttemptsAnswer,
    ReplayedAnswer,
)
from nsqlake.nsqd.http.arguments import find_channel, integer, text
from nsqlake.nsqd.http.channel_endpoints import CHANNEL_ERRORS
from nsqlake.nsqd.http.deferred_endpoints import DEFAULT_LIMIT, LIMIT
from nsqlake.nsqd.http.endpoints import CHANNEL, JSON, TOPIC, Access, Endpoint, Kind, Parameter, Reply
from nsqlake.nsqd.http.failures import refusal
from nsqlake.nsqd.http.log_endpoints import MAX_OFFSET
from nsqlake.nsqd.http.refusals import UNAVAILABLE, check_running
from nsqlake.nsqd.http.schemas import ref
from nsqlake.nsqd.http.selection import ALL, ID, SELECTION_ERRORS, selected
from nsqlake.nsqd.http.services import Services
from nsqlake.nsqd.replay import MAX_DEFERRED_LISTED
from nsqlake.runtime.http import HttpError, Request, Response, json_response

__all__ = ["DeadLettersApi", "endpoints"]

MAX_MAX_ATTEMPTS = 65_535  # an attempt count has two bytes on the wire
REPLAY_DEADLINE_S = 300.0
DEFAULT = "default"

AFTER = Parameter(
    name="after",
    kind=Kind.INTEGER,
    example="1731700000000000",
    description="Where to go on: `after` of the answer before.",
)
MAX_ATTEMPTS = Parameter(
    name="max_attempts",
    required=True,
    example="5",
    description="Deliveries before a message is given up; 0 for any number, `default` for --max-attempts.",
)


class DeadLettersApi:
    """The handlers."""

    def __init__(self, services: Services) -> None:
        self._broker = services.broker

    async def list(self, request: Request) -> Response:
        channel = find_channel(self._broker, request)
        limit = integer(request, "limit", DEFAULT_LIMIT, least=1, most=MAX_DEFERRED_LISTED)
        after = integer(request, "after", 0, most=MAX_OFFSET)
        letters = await self._broker.dead_letters(channel, after, limit)
        return json_response(
            DeadLettersAnswer(
                topic=dead_topic_name(channel.topic.name, channel.core.name),
                max_attempts=channel.core.max_attempts,
                messages=[_shown(letter) for letter in letters],
                after=letters[-1].offset if len(letters) == limit else None,
            )
        )

    async def replay(self, request: Request) -> Response:
        channel = find_channel(self._broker, request)
        message_id = selected(request)
        check_running(self._broker)
        try:
            return json_response(ReplayedAnswer(await self._broker.replay_dead(channel, message_id)))
        except NoDeadLetterError as error:
            raise HttpError(404, "MESSAGE_NOT_FOUND", reason=error.reason) from error
        except DeadLetterBusyError as error:
            raise HttpError(409, "BUSY", reason=error.reason) from error
        except DeadLetterError as error:
            raise refusal(error.reason) from error

    async def set_max_attempts(self, request: Request) -> Response:
        channel = find_channel(self._broker, request)
        is_default = text(request, "max_attempts") == DEFAULT
        own = None if is_default else integer(request, "max_attempts", most=MAX_MAX_ATTEMPTS)
        check_running(self._broker)
        await self._broker.set_max_attempts(channel, own)
        return json_response(MaxAttemptsAnswer(channel.core.max_attempts, own is not None))


def _shown(letter: DeadLetter) -> DeadLetterAnswer:
    return DeadLetterAnswer(
        id=letter.id,
        original_id=letter.original_id,
        offset=letter.offset,
        reason=letter.reason,
        attempts=letter.attempts,
        published=letter.published_ns,
        dead_since=letter.at_ns,
        size=letter.size,
        in_flight=letter.is_in_flight,
    )


def endpoints(services: Services) -> list[Endpoint]:
    api = DeadLettersApi(services)
    return [_list_endpoint(api), _replay_endpoint(api), _max_attempts_endpoint(api)]


def _list_endpoint(api: DeadLettersApi) -> Endpoint:
    return Endpoint(
        method="GET",
        path="/channel/dead",
        handler=api.list,
        access=Access.SUBSCRIBE,
        tag="dead letters",
        summary="Messages of a channel that were given up",
        description="They wait in the topic that the answer names, in its channel `dead`; "
        "/message/peek shows "
        "their bodies there.",
        parameters=(TOPIC, CHANNEL, LIMIT, AFTER),
        replies={200: Reply(description="Dead letters.", content_type=JSON, schema=ref(DeadLettersAnswer))},
        errors=(*CHANNEL_ERRORS, (400, "INVALID_ARG_LIMIT"), (400, "INVALID_ARG_AFTER"), *UNAVAILABLE),
    )


def _replay_endpoint(api: DeadLettersApi) -> Endpoint:
    return Endpoint(
        method="POST",
        path="/channel/dead/replay",
        handler=api.replay,
        access=Access.ADMIN,
        tag="dead letters",
        summary="Bring one dead letter, or all, back to their channel",
        description="Each is stored in the channel's topic again, for this channel alone, and "
        "counts its attempts "
        "anew. What a consumer of the dead letters has in flight is left alone.",
        parameters=(TOPIC, CHANNEL, ID, ALL),
        replies={
            200: Reply(
                description="Durable; how many.",
                content_type=JSON,
                schema=ref(ReplayedAnswer),
                example={"replayed": 1},
            )
        },
        errors=(
            *CHANNEL_ERRORS,
            *SELECTION_ERRORS,
            (404, "MESSAGE_NOT_FOUND"),
            (409, "BUSY"),
            *UNAVAILABLE,
        ),
        deadline_s=REPLAY_DEADLINE_S,
    )


def _max_attempts_endpoint(api: DeadLettersApi) -> Endpoint:
    return Endpoint(
        method="POST",
        path="/channel/max_attempts",
        handler=api.set_max_attempts,
        access=Access.ADMIN,
        tag="dead letters",
        summary="After how many deliveries a message is given up",
        description="For this channel alone; kept over restarts.",
        parameters=(TOPIC, CHANNEL, MAX_ATTEMPTS),
        replies={
            200: Reply(
                description="Durable; what holds now.",
                content_type=JSON,
                schema=ref(MaxAttemptsAnswer),
                example={"max_attempts": 5, "own": True},
            )
        },
        errors=(
            *CHANNEL_ERRORS,
            (400, "MISSING_ARG_MAX_ATTEMPTS"),
            (400, "INVALID_ARG_MAX_ATTEMPTS"),
            *UNAVAILABLE,
        ),
    )
