"""The messages of a topic's log, one after the other, in the form that was asked for."""

import base64
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

import msgspec

from nsqlake.apps.log_tool.bounds import Bound
from nsqlake.runtime.logs import escape
from nsqlake.topiclog.log_view import LogView

__all__ = ["FORMATS", "DumpedMessage", "messages"]

_OFFSET_BITS = 54
_NS = 1_000_000_000


@dataclass(frozen=True, slots=True)
class DumpedMessage:
    offset: int
    timestamp_ns: int
    due_ns: int
    body: bytes


def messages(view: LogView, begin: Bound, end: Bound) -> Iterator[DumpedMessage]:
    """The messages from `begin` up to, and not including, `end`."""
    offset = begin.offset or 0
    if begin.time_ns is not None:
        offset = view.start_at(begin.time_ns)
    while (span := view.read(offset)) is not None:
        for i in range(max(offset - span.base, 0), span.count):
            stamp = span.timestamp(i)
            if end.offset is not None and span.base + i >= end.offset:
                return
            if end.time_ns is not None and stamp >= end.time_ns:
                return
            if begin.time_ns is None or stamp >= begin.time_ns:
                yield DumpedMessage(span.base + i, stamp, span.due_ns, span.body(i))
        offset = span.end


def _text(message: DumpedMessage, _node_id: int) -> bytes:
    body = escape(message.body.decode(errors="backslashreplace"), limit=len(message.body) * 4)
    return f"{message.offset} {_iso(message.timestamp_ns)} {body}\n".encode()


def _hex(message: DumpedMessage, _node_id: int) -> bytes:
    return f"{message.offset} {_iso(message.timestamp_ns)} {message.body.hex()}\n".encode()


def _raw(message: DumpedMessage, _node_id: int) -> bytes:
    return len(message.body).to_bytes(4, "big") + message.body


def _json(message: DumpedMessage, node_id: int) -> bytes:
    line: dict[str, object] = {
        "offset": message.offset,
        "id": f"{node_id << _OFFSET_BITS | message.offset:016x}",
        "timestamp": message.timestamp_ns,
    }
    if message.due_ns:
        line["due"] = message.due_ns
    try:
        line["body"] = message.body.decode()
    except UnicodeDecodeError:
        line["body_base64"] = base64.b64encode(message.body).decode()
    return msgspec.json.encode(line) + b"\n"


FORMATS: dict[str, Callable[[DumpedMessage, int], bytes]] = {
    "text": _text,
    "json": _json,
    "hex": _hex,
    "raw": _raw,
}


def _iso(timestamp_ns: int) -> str:
    seconds, rest_ns = divmod(timestamp_ns, _NS)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{rest_ns:09d}Z"
