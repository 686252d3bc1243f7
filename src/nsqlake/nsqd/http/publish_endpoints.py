"""`/pub` and `/mpub`.

A publish to a topic that exists is done at once, in the turn of the loop in which it came, and shares its
block with whoever else publishes then, over TCP or HTTP. Everything unusual goes the long way.
"""

import logging
import struct

from nsqlake.nsqd.http.answering import Answer, settle
from nsqlake.nsqd.http.arguments import topic_name
from nsqlake.nsqd.http.endpoints import OK_TEXT, TOPIC, Access, Endpoint, Kind, Parameter, RequestBody
from nsqlake.nsqd.http.failures import FAILURES, refusal, refused
from nsqlake.nsqd.http.refusals import UNAVAILABLE
from nsqlake.nsqd.http.services import Services
from nsqlake.nsqd.live_topic import LiveTopic
from nsqlake.runtime.go_text import parse_decimal_integer
from nsqlake.runtime.http import HttpError, Later, Request, Response, error_response, text_response
from nsqlake.wire.command_reader import Messages
from nsqlake.wire.errors import ClientError
from nsqlake.wire.mpub_bodies import MessageTooBigError, decode_binary, decode_lines

__all__ = ["Publisher", "endpoints"]

logger = logging.getLogger(__name__)

OK = text_response("OK")
_MS = 1_000_000
_TEXT_MODES = (None, "false", "0")
_BINARY_MODES = ("true", "1")
_SIZE = struct.Struct(">i")


class PendingPublish(Later):
    """A publish whose block is yet to be written or synced."""

    __slots__ = ()

    def succeed(self) -> None:
        self.resolve(OK)

    def fail(self, reason: str) -> None:
        self.resolve(error_response(refusal(reason)))


class Publisher:
    """The handlers of both endpoints."""

    def __init__(self, services: Services) -> None:
        self._broker, self._turn, self._clock = services.broker, services.turn, services.clock
        self._topics = services.broker.topics
        self._input_came = services.turn.input_came
        self._max_defer_ns = services.options.max_req_timeout_ns
        self._max_msg_size = services.options.max_msg_size
        self._max_body_size = services.options.max_body_size

    def pub(self, request: Request) -> Answer:
        self._input_came()
        body = request.body
        if not body:
            raise HttpError(400, "MSG_EMPTY")
        params = request.params
        topic = self._topics.get(params.get("topic") or "")
        if topic is None or "defer" in params or topic.core.is_closed or self._broker.refusal:
            return self._pub_unusual(request)
        return self._pub_one(topic, _SIZE.pack(len(body)) + body, request)

    def _pub_one(self, topic: LiveTopic, record: bytes, request: Request) -> Answer:
        turn = self._turn
        if topic.is_crowd_with(request.peer.address) or topic.gathering.blocks or turn.acks_after_sync:
            if not topic.gathering.blocks:
                turn.gather(topic)
            pending = PendingPublish()
            topic.gathering.add_one(record, pending)
            return pending
        try:
            turn.publish_one(topic, record)
        except FAILURES as error:
            raise refused(error) from error
        return OK

    def _pub_unusual(self, request: Request) -> Answer:
        name = topic_name(request)
        topic = self._topics.get(name)
        return self._pub_to(topic, request) if topic is not None else self._pub_to_new(name, request)

    async def _pub_to_new(self, name: str, request: Request) -> Response:
        return await settle(self._pub_to(await self._open(name), request))

    def _pub_to(self, topic: LiveTopic, request: Request) -> Answer:
        defer_ns = self._defer_ns(request)
        self._check_open(topic)
        body = request.body
        record = _SIZE.pack(len(body)) + body
        if not defer_ns:
            return self._pub_one(topic, record, request)
        due_ns = self._clock.now_ns() + defer_ns
        return self._publish(topic, Messages(b"DPUB", record, 1, len(record)), due_ns)

    def _defer_ns(self, request: Request) -> int:
        text = request.params.get("defer")
        if text is None:
            return 0
        try:
            defer_ns = parse_decimal_integer(text) * _MS
        except ValueError as error:
            raise HttpError(400, "INVALID_DEFER") from error
        if not 0 <= defer_ns <= self._max_defer_ns:
            raise HttpError(400, "INVALID_DEFER")
        return defer_ns

    def mpub(self, request: Request) -> Answer:
        self._input_came()
        name = topic_name(request)
        topic = self._topics.get(name)
        return self._mpub_to(topic, request) if topic is not None else self._mpub_to_new(name, request)

    async def _mpub_to_new(self, name: str, request: Request) -> Response:
        return await settle(self._mpub_to(await self._open(name), request))

    def _mpub_to(self, topic: LiveTopic, request: Request) -> Answer:
        messages = self._decode(request)
        self._check_open(topic)
        return OK if messages is None else self._publish(topic, messages)

    def _decode(self, request: Request) -> Messages | None:
        """None for no message at all, which lines may be."""
        mode = request.params.get("binary")
        if mode not in (*_TEXT_MODES, *_BINARY_MODES):
            logger.warning("CLIENT(%s): /mpub took binary=%.64s for true", request.remote_address, mode)
        try:
            if mode in _TEXT_MODES:
                return decode_lines(request.body, max_msg_size=self._max_msg_size)
            return decode_binary(
                request.body, max_msg_size=self._max_msg_size, max_body_size=self._max_body_size
            )
        except MessageTooBigError as error:
            raise HttpError(413, "MSG_TOO_BIG") from error
        except ClientError as error:
            raise HttpError(413, error.code.removeprefix("E_")) from error

    def _publish(self, topic: LiveTopic, messages: Messages, due_ns: int = 0) -> Answer:
        """A block of its own."""
        turn = self._turn
        try:
            turn.publish(topic, messages, due_ns)
        except FAILURES as error:
            raise refused(error) from error
        if not turn.acks_after_sync:
            return OK
        pending = PendingPublish()
        turn.acknowledge(topic, [pending])
        return pending

    async def _open(self, name: str) -> LiveTopic:
        try:
            return await self._broker.open_topic(name)
        except FAILURES as error:
            raise refused(error) from error

    def _check_open(self, topic: LiveTopic) -> None:
        if topic.core.is_closed or self._broker.refusal:
            raise refusal(self._broker.refusal or "exiting")


_DEFER = Parameter(
    name="defer",
    kind=Kind.INTEGER,
    example="5000",
    description="Milliseconds for which no consumer gets the message; at most --max-req-timeout.",
)
_BINARY = Parameter(
    name="binary",
    example="true",
    description="How the body is read: absent, false or 0 for lines; anything else for binary.",
)
_TOPIC_ERRORS = ((400, "MISSING_ARG_TOPIC"), (400, "INVALID_TOPIC"), (429, "TOO_MANY_TOPICS"))


def endpoints(services: Services) -> list[Endpoint]:
    publisher, options = Publisher(services), services.options
    return [
        Endpoint(
            method="POST",
            path="/pub",
            handler=publisher.pub,
            access=Access.PUBLISH,
            tag="publish",
            summary="Publish one message",
            description="A topic that does not exist is made. Answered once the message is written, "
            "or synced with --ack-after=sync.",
            parameters=(TOPIC, _DEFER),
            body=RequestBody(
                description="The message.",
                max_bytes=options.max_msg_size,
                too_big="MSG_TOO_BIG",
                example="hello",
            ),
            replies={200: OK_TEXT},
            errors=((400, "MSG_EMPTY"), *_TOPIC_ERRORS, (400, "INVALID_DEFER"), *UNAVAILABLE),
            aliases=("/put",),
        ),
        Endpoint(
            method="POST",
            path="/mpub",
            handler=publisher.mpub,
            access=Access.PUBLISH,
            tag="publish",
            summary="Publish several messages, all or none",
            description="Lines, of which empty ones are skipped; or, with `binary`, a 4-byte count and "
            "for each message its 4-byte size and its bytes, all big-endian.",
            parameters=(TOPIC, _BINARY),
            body=RequestBody(
                description="The messages.",
                max_bytes=options.max_body_size,
                required=False,
                example="one\ntwo\n",
            ),
            replies={200: OK_TEXT},
            errors=(
                *_TOPIC_ERRORS,
                (413, "MSG_TOO_BIG"),
                (413, "BAD_BODY"),
                (413, "BAD_MESSAGE"),
                *UNAVAILABLE,
            ),
            aliases=("/mput",),
        ),
    ]
