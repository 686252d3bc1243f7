"""Reading a topic's log by offset: where it begins and ends, and its blocks as they lie in the files."""

import re
from collections.abc import Awaitable

import msgspec

from nsqlake.nsqd.core.seeking import SeekKind, SeekTarget, SeekTargetError, check_offset
from nsqlake.nsqd.http.answers import LogIndexAnswer, LogOffsetsAnswer
from nsqlake.nsqd.http.arguments import find_topic, flag, integer, topic_name
from nsqlake.nsqd.http.endpoints import BYTES, JSON, TOPIC, Access, Endpoint, Kind, Parameter, Reply
from nsqlake.nsqd.http.log_watch import LogWatch
from nsqlake.nsqd.http.refusals import OUTSIDE, UNAVAILABLE, within_log
from nsqlake.nsqd.http.schemas import ref
from nsqlake.nsqd.http.services import Services
from nsqlake.nsqd.live_topic import LiveTopic
from nsqlake.nsqd.replay import MAX_RAW_BYTES, log_blocks, log_offsets
from nsqlake.runtime.http import FileResponse, Headers, HttpError, Request, Response, json_response
from nsqlake.topiclog.raw_blocks import RawBlocks

__all__ = ["MAX_OFFSET", "LogReading", "endpoints"]

MAX_OFFSET = 2**54 - 1
DEFAULT_RAW_BYTES = 4 * 1024 * 1024
MAX_WAIT_MS = 30_000
DEFAULT_STEP_BYTES = 1024 * 1024
MAX_MARKS = 10_000
READ_DEADLINE_S = 45.0

_NANOSECONDS = re.compile(r"[0-9]{1,19}")

OFFSET = Parameter(
    name="offset",
    kind=Kind.INTEGER,
    required=True,
    example="1731700000000000",
    description="An offset of the log.",
)
_TIME_SPELLINGS = "ns since 1970 in digits, @ and unix seconds, or RFC 3339"
TIMESTAMP = Parameter(
    name="timestamp",
    example="2026-11-15T18:00:00Z",
    description=f"Adds `at`, the first offset of this time: {_TIME_SPELLINGS}.",
)
MAX_BYTES = Parameter(
    name="max_bytes",
    kind=Kind.INTEGER,
    example="1048576",
    description=f"About how much to send, {DEFAULT_RAW_BYTES} unless told, at most {MAX_RAW_BYTES}. "
    "A block is never cut, and one is always sent.",
)
WAIT_MS = Parameter(
    name="wait_ms",
    kind=Kind.INTEGER,
    example="1000",
    description=f"At the end of the log, how long to wait for more, at most {MAX_WAIT_MS}.",
)
VERIFIED = Parameter(
    name="verified",
    kind=Kind.FLAG,
    example="true",
    description="Skip damaged blocks in front: for a reader that found the first one's checksum wrong.",
)
END = Parameter(
    name="end",
    kind=Kind.INTEGER,
    example="1731700001000000",
    description="Where the range ends; the end of the log unless told.",
)
STEP_BYTES = Parameter(
    name="step_bytes",
    kind=Kind.INTEGER,
    example="1048576",
    description=f"How far apart the marks are, {DEFAULT_STEP_BYTES} unless told; further if there would be "
    f"more than {MAX_MARKS}.",
)
READ_HEADERS = {
    "X-Nsq-Log-Uuid": "Which log this is: another one has other offsets.",
    "X-Nsq-Log-Salt": "What the checksum of every block begins with.",
    "X-Nsq-Log-Epoch": "Grows with every unclean stop of the daemon.",
    "X-Nsq-Node-Id": "A message id is this number << 54 | offset, as 16 hex digits.",
    "X-Nsq-Log-First": "Where the log begins.",
    "X-Nsq-Log-Next": "Where the log ends.",
    "X-Nsq-First-Offset": "The offset of the first message sent, below the one asked for if its "
    "block begins earlier.",
    "X-Nsq-Next-Offset": "Where to read on.",
}


class LogReading:
    """The handlers of both endpoints."""

    def __init__(self, services: Services) -> None:
        self._broker = services.broker
        self._node_id = services.options.node_id
        self._watch = LogWatch(services.broker)

    def offsets(self, request: Request) -> Response:
        topic = find_topic(self._broker, topic_name(request))
        kept = self._broker.retention.of(topic.name)
        found = log_offsets(topic, _timestamp_ns(request))
        return json_response(
            LogOffsetsAnswer(
                topic=topic.name,
                first=found.first,
                next=found.next,
                fanout=found.fanout,
                uuid=found.uuid,
                epoch=found.epoch,
                salt=found.salt,
                node_id=self._node_id,
                retention_time=kept.time_ns,
                retention_bytes=kept.nbytes,
                at=msgspec.UNSET if found.at is None else found.at,
            )
        )

    def read(self, request: Request) -> Response | Awaitable[Response]:
        topic = find_topic(self._broker, topic_name(request))
        offset = integer(request, "offset", most=MAX_OFFSET)
        max_bytes = integer(request, "max_bytes", DEFAULT_RAW_BYTES, least=1, most=MAX_RAW_BYTES)
        wait_ms = integer(request, "wait_ms", 0, most=MAX_WAIT_MS)
        with within_log():
            blocks = log_blocks(topic, offset, max_bytes, verified=flag(request, "verified", default=False))
        if wait_ms and not blocks.nbytes:
            blocks.release()
            return self._read_later(topic, blocks.next, max_bytes, wait_ms)
        return _raw_response(topic, blocks, self._node_id)

    async def index(self, request: Request) -> Response:
        topic = find_topic(self._broker, topic_name(request))
        log = topic.core.log
        offset = integer(request, "offset", most=MAX_OFFSET)
        end = min(integer(request, "end", log.next, most=MAX_OFFSET), log.next)
        step = integer(request, "step_bytes", DEFAULT_STEP_BYTES, least=1, most=MAX_OFFSET)
        with within_log():
            check_offset(log, offset)
        marks = log.size_marks(offset, end, step, MAX_MARKS)
        return json_response(
            LogIndexAnswer(
                topic=topic.name,
                uuid=log.uuid.hex(),
                epoch=log.epoch,
                first=log.first,
                next=log.next,
                node_id=self._node_id,
                start=offset,
                end=end,
                marks=marks,
            )
        )

    async def _read_later(self, topic: LiveTopic, offset: int, max_bytes: int, wait_ms: int) -> Response:
        await self._watch.wait(topic, offset, wait_ms / 1e3)
        if topic.core.is_closed:
            raise HttpError(404, "TOPIC_NOT_FOUND")
        with within_log():
            return _raw_response(topic, log_blocks(topic, offset, max_bytes), self._node_id)


def _timestamp_ns(request: Request) -> int | None:
    value = request.params.get("timestamp")
    if value is None:
        return None
    if _NANOSECONDS.fullmatch(value):
        return int(value)
    try:
        target = SeekTarget.parse(value)
    except SeekTargetError:
        target = SeekTarget.latest()
    if target.kind is not SeekKind.TIME:
        reason = f"timestamp must be {_TIME_SPELLINGS}"
        raise HttpError(400, "INVALID_ARG_TIMESTAMP", reason=reason)
    return target.value


def _raw_response(topic: LiveTopic, blocks: RawBlocks, node_id: int) -> Response:
    log = topic.core.log
    headers: Headers = (
        ("X-Nsq-Log-Uuid", log.uuid.hex()),
        ("X-Nsq-Log-Salt", str(log.salt)),
        ("X-Nsq-Log-Epoch", str(log.epoch)),
        ("X-Nsq-Node-Id", str(node_id)),
        ("X-Nsq-Log-First", str(log.first)),
        ("X-Nsq-Log-Next", str(log.next)),
        ("X-Nsq-First-Offset", str(blocks.base)),
        ("X-Nsq-Next-Offset", str(blocks.next)),
    )
    if not blocks.parts:
        return Response(200, blocks.data, BYTES, headers)
    return FileResponse(list(blocks.parts), BYTES, headers, on_done=blocks.release)


def endpoints(services: Services) -> list[Endpoint]:
    reading = LogReading(services)
    return [_offsets_endpoint(reading), _read_endpoint(reading), _index_endpoint(reading)]


def _index_endpoint(reading: LogReading) -> Endpoint:
    return Endpoint(
        method="GET",
        path="/log/index",
        handler=reading.index,
        access=Access.SUBSCRIBE,
        tag="log",
        summary="How the bytes of a topic's log are spread over its offsets",
        description="For whoever wants to read a range in parts of about equal size: a mark about every "
        "`step_bytes`, at the start of a block, and one at the end.",
        parameters=(TOPIC, OFFSET, END, STEP_BYTES),
        replies={200: Reply(description="Marks.", content_type=JSON, schema=ref(LogIndexAnswer))},
        errors=(
            (400, "MISSING_ARG_TOPIC"),
            (400, "INVALID_TOPIC"),
            (404, "TOPIC_NOT_FOUND"),
            (400, "MISSING_ARG_OFFSET"),
            (400, "INVALID_ARG_OFFSET"),
            (400, "INVALID_ARG_END"),
            (400, "INVALID_ARG_STEP_BYTES"),
            OUTSIDE,
            *UNAVAILABLE,
        ),
    )


def _offsets_endpoint(reading: LogReading) -> Endpoint:
    return Endpoint(
        method="GET",
        path="/log/offsets",
        handler=reading.offsets,
        access=Access.SUBSCRIBE,
        tag="log",
        summary="Where a topic's log begins and ends",
        description="Also which log it is, what its retention is, and which offset a time has.",
        parameters=(TOPIC, TIMESTAMP),
        replies={200: Reply(description="Offsets.", content_type=JSON, schema=ref(LogOffsetsAnswer))},
        errors=(
            (400, "MISSING_ARG_TOPIC"),
            (400, "INVALID_TOPIC"),
            (404, "TOPIC_NOT_FOUND"),
            (400, "INVALID_ARG_TIMESTAMP"),
            *UNAVAILABLE,
        ),
    )


def _read_endpoint(reading: LogReading) -> Endpoint:
    return Endpoint(
        method="GET",
        path="/log/read",
        handler=reading.read,
        access=Access.SUBSCRIBE,
        tag="log",
        summary="Blocks of a topic's log, as they are stored",
        description="Whole blocks from the one that holds the offset on; docs/log-format.md "
        "has the bytes. "
        "Empty at the end of the log. Whether a message was finished, emptied or deferred "
        "does not matter.",
        parameters=(TOPIC, OFFSET, MAX_BYTES, WAIT_MS, VERIFIED),
        replies={
            200: Reply(
                description="Blocks.",
                content_type=BYTES,
                schema={"type": "string", "format": "binary"},
                headers=READ_HEADERS,
            )
        },
        errors=(
            (400, "MISSING_ARG_TOPIC"),
            (400, "INVALID_TOPIC"),
            (404, "TOPIC_NOT_FOUND"),
            (400, "MISSING_ARG_OFFSET"),
            (400, "INVALID_ARG_OFFSET"),
            (400, "INVALID_ARG_MAX_BYTES"),
            (400, "INVALID_ARG_WAIT_MS"),
            OUTSIDE,
            *UNAVAILABLE,
        ),
        deadline_s=READ_DEADLINE_S,
    )
