"""Looking at messages without consuming them."""

import base64
from typing import Literal

from msgspec import UNSET

from nsqlake.nsqd.core.peeking import ChannelMessage, PeekedMessage
from nsqlake.nsqd.core.seeking import FutureOffsetError, check_offset
from nsqlake.nsqd.http.answers import MessageAnswer, PeekAnswer
from nsqlake.nsqd.http.arguments import find_channel, find_topic, integer, topic_name
from nsqlake.nsqd.http.channel_endpoints import CHANNEL_ERRORS
from nsqlake.nsqd.http.endpoints import CHANNEL, JSON, TOPIC, Access, Endpoint, Kind, Parameter, Reply
from nsqlake.nsqd.http.log_endpoints import MAX_OFFSET
from nsqlake.nsqd.http.refusals import OUTSIDE, UNAVAILABLE, within_log
from nsqlake.nsqd.http.schemas import ref
from nsqlake.nsqd.http.services import Services
from nsqlake.nsqd.live_topic import LiveChannel, LiveTopic
from nsqlake.nsqd.replay import MAX_PEEK_BYTES, MAX_PEEK_MESSAGES, message_id, peek_at_channel, peek_at_topic
from nsqlake.runtime.http import Request, Response, json_response

__all__ = ["Peeking", "endpoints", "shown_body"]

DEFAULT_COUNT = 10
DEFAULT_BODY_BYTES = 64 * 1024

OFFSET = Parameter(
    name="offset",
    kind=Kind.INTEGER,
    example="1731700000000000",
    description="The first message to show; else the oldest one of the topic, or the next one of "
    "the channel.",
)
COUNT = Parameter(
    name="count",
    kind=Kind.INTEGER,
    example="10",
    description=f"How many, {DEFAULT_COUNT} unless told, at most {MAX_PEEK_MESSAGES}, and about "
    f"{MAX_PEEK_BYTES} bytes of them.",
)
MAX_BODY_BYTES = Parameter(
    name="max_body_bytes",
    kind=Kind.INTEGER,
    example="1024",
    description=f"How much of each body to show, {DEFAULT_BODY_BYTES} unless told.",
)
_CHANNEL = Parameter(
    name=CHANNEL.name,
    kind=CHANNEL.kind,
    example=CHANNEL.example,
    description="Shows what became of each message in this channel.",
)


class Peeking:
    """The handler."""

    def __init__(self, services: Services) -> None:
        self._broker = services.broker

    def peek(self, request: Request) -> Response:
        channel = find_channel(self._broker, request) if "channel" in request.params else None
        topic = channel.topic if channel else find_topic(self._broker, topic_name(request))
        offset = integer(request, "offset", -1, most=MAX_OFFSET)
        count = integer(request, "count", DEFAULT_COUNT, least=1, most=MAX_PEEK_MESSAGES)
        room = integer(request, "max_body_bytes", DEFAULT_BODY_BYTES, most=MAX_PEEK_BYTES)
        with within_log():
            if channel is None:
                return _shown(topic, *_of_topic(topic, offset, count), room)
            return _shown(topic, *_of_channel(channel, offset, count), room)


def _of_topic(topic: LiveTopic, offset: int, count: int) -> tuple[list[PeekedMessage], int]:
    log = topic.core.log
    start = log.first if offset < 0 else check_offset(log, offset)
    return peek_at_topic(topic, start, count, MAX_PEEK_BYTES), start


def _of_channel(channel: LiveChannel, offset: int, count: int) -> tuple[list[ChannelMessage], int]:
    """A channel may still hold messages from before the first offset that readers of the log may have."""
    log = channel.topic.core.log
    start = channel.core.ledger.cursor if offset < 0 else offset
    if offset > log.next:
        raise FutureOffsetError(offset, first=log.first, next_=log.next)
    return peek_at_channel(channel, count, MAX_PEEK_BYTES, start), start


def _shown(
    topic: LiveTopic, messages: list[PeekedMessage] | list[ChannelMessage], start: int, room: int
) -> Response:
    behind = messages[-1].offset + 1 if messages else start
    return json_response(PeekAnswer([_message(topic, message, room) for message in messages], behind))


def _message(topic: LiveTopic, message: PeekedMessage | ChannelMessage, room: int) -> MessageAnswer:
    encoding, body = shown_body(message.body, room)
    in_channel = message if isinstance(message, ChannelMessage) else None
    return MessageAnswer(
        id=message_id(topic, message.offset),
        offset=message.offset,
        timestamp=message.timestamp_ns,
        size=len(message.body),
        encoding=encoding,
        body=body,
        truncated=len(message.body) > room,
        due=message.due_ns or UNSET,
        state=in_channel.state.value if in_channel else UNSET,
        attempts=in_channel.attempts if in_channel else UNSET,
    )


def shown_body(body: bytes, room: int) -> tuple[Literal["utf-8", "base64"], str]:
    """The encoding, and up to `room` bytes of the body in it; text is not cut within a character."""
    try:
        body.decode()
    except UnicodeDecodeError:
        return "base64", base64.b64encode(body[:room]).decode()
    return "utf-8", body[:room].decode(errors="ignore")


def endpoints(services: Services) -> list[Endpoint]:
    return [
        Endpoint(
            method="GET",
            path="/message/peek",
            handler=Peeking(services).peek,
            access=Access.SUBSCRIBE,
            tag="messages",
            summary="Look at messages without consuming them",
            description="Those of a topic's log, or, with `channel`, what flows to a channel and "
            "what became of it. "
            "What was emptied is not shown. `next` is where to look on.",
            parameters=(TOPIC, _CHANNEL, OFFSET, COUNT, MAX_BODY_BYTES),
            replies={200: Reply(description="Messages.", content_type=JSON, schema=ref(PeekAnswer))},
            errors=(
                *CHANNEL_ERRORS,
                (400, "INVALID_TOPIC"),
                (400, "INVALID_ARG_OFFSET"),
                (400, "INVALID_ARG_COUNT"),
                (400, "INVALID_ARG_MAX_BODY_BYTES"),
                OUTSIDE,
                *UNAVAILABLE,
            ),
        )
    ]
