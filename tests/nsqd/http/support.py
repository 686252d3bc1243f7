"""An nsqd to ask, and what its answers say."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from nsqlake.testing.nsqd import NsqdFixture, running_nsqd
from nsqlake.topiclog.block import BlockFault, block_size, decode_block
from tests.fakes.http_client import Answer
from tests.fakes.http_connection import HttpConnection

LATE_MS = 3_600_000


@contextmanager
def asked_nsqd(**options: Any) -> Iterator[tuple[NsqdFixture, HttpConnection]]:
    with running_nsqd(**options) as nsqd, HttpConnection(nsqd.http_address) as http:
        yield nsqd, http


def said(answer: Answer) -> Any:
    """The JSON of a good answer."""
    assert answer.status == 200, answer
    assert answer.headers["content-type"] == "application/json; charset=utf-8"
    return json.loads(answer.body)


def refusal(answer: Answer) -> tuple[int, str]:
    """Status and code; whatever else there is must be a reason."""
    error = json.loads(answer.body)
    assert error.keys() <= {"message", "reason"}, error
    assert error.get("reason") != ""
    return answer.status, error["message"]


def reason(answer: Answer) -> str:
    text: str = json.loads(answer.body)["reason"]
    return text


def fill(http: HttpConnection, topic: str, *bodies: bytes, channels: tuple[str, ...] = ("c",)) -> int:
    """Make topic and channels, publish each body in a block of its own; the offset of the first."""
    for target in (f"/topic/create?topic={topic}", *_creations(topic, channels)):
        assert http.post(target).status == 200
    first: int = said(http.get(f"/log/offsets?topic={topic}"))["next"]
    for body in bodies:
        assert http.post(f"/pub?topic={topic}", body).status == 200
    return first


def _creations(topic: str, channels: tuple[str, ...]) -> list[str]:
    return [f"/channel/create?topic={topic}&channel={channel}" for channel in channels]


def bodies_of(answer: Answer) -> list[bytes]:
    """The messages of raw blocks, whose checksums must be right."""
    assert (answer.status, answer.headers["content-type"]) == (200, "application/octet-stream")
    data, salt, position = answer.body, int(answer.headers["x-nsq-log-salt"]), 0
    bodies: list[bytes] = []
    while position < len(data):
        span = decode_block(data, position, salt)
        assert not isinstance(span, BlockFault), span
        bodies += [span.body(index) for index in range(span.count)]
        position += block_size(data, position)
    return bodies
