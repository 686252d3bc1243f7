"""One row of the HTTP API: the route, who may use it, and its description, in one value.

The router, the permission check and `/openapi.json` are all derived from these rows, so that none of them can
know an endpoint that another does not.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from nsqlake.nsqd.access import Access
from nsqlake.runtime.http import Handler, HttpError, Route

__all__ = [
    "BYTES",
    "CHANNEL",
    "EMPTY",
    "JSON",
    "OK_TEXT",
    "TEXT",
    "TOPIC",
    "Access",
    "Endpoint",
    "Kind",
    "Parameter",
    "Reply",
    "RequestBody",
]

JSON = "application/json; charset=utf-8"
TEXT = "text/plain; charset=utf-8"
BYTES = "application/octet-stream"
DEADLINE_S = 30.0


class Kind(StrEnum):
    """What a parameter's text has to be."""

    TEXT = "text"
    NAME = "name"  # of a topic or channel
    INTEGER = "integer"
    FLAG = "flag"  # true or 1, false or 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """One parameter of the query, or, `in_path`, the `{name}` of the path."""

    name: str
    description: str
    kind: Kind = Kind.TEXT
    required: bool = False
    example: str = ""
    in_path: bool = False
    in_example: bool = False  # not required, but an example without it would be refused


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestBody:
    """What is sent; more than `max_bytes` is refused with 413 and the code `too_big` before it is read."""

    description: str
    max_bytes: int
    too_big: str = "BODY_TOO_BIG"
    content_type: str = BYTES
    required: bool = True
    example: Any = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """A good answer; `schema` is JSON Schema."""

    description: str
    content_type: str = ""  # "" when it has no body
    schema: Mapping[str, Any] | None = None
    example: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)  # what the answer's own headers say
    also: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # other content types, their schemas


EMPTY = Reply(description="Done; the body is empty.")
OK_TEXT = Reply(description="The text OK.", content_type=TEXT, schema={"type": "string"}, example="OK")


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """One method of one path. `errors` are (status, code) in the order in which they are checked.

    What every endpoint may answer is not listed: 400 INVALID_REQUEST, 401 and 403 by `access`, 405, 413, 500.
    `aliases` are older paths of the same endpoint, deprecated.
    """

    method: str
    path: str
    handler: Handler
    access: Access
    tag: str
    summary: str
    description: str = ""
    parameters: Sequence[Parameter] = ()
    body: RequestBody | None = None
    replies: Mapping[int, Reply] = field(default_factory=lambda: {200: EMPTY})
    errors: Sequence[tuple[int, str]] = ()
    aliases: Sequence[str] = ()
    deprecated: bool = False
    plain: bool = False  # its answers lack NSQ's own header
    deadline_s: float = DEADLINE_S

    def with_aliases(self) -> "list[Endpoint]":
        older = [replace(self, path=path, aliases=(), deprecated=True) for path in self.aliases]
        return [self, *older]

    def route(self, handler: Handler) -> Route:
        """The route, with `handler` in place of the endpoint's own, which knows no permissions."""
        return Route(
            self.method,
            self.path,
            handler,
            max_body_bytes=self.body.max_bytes if self.body else 0,
            too_big=HttpError(*self.too_big),
            deadline_s=self.deadline_s,
            plain=self.plain,
        )

    @property
    def too_big(self) -> tuple[int, str]:
        """What more than the body limit is refused with."""
        return 413, self.body.too_big if self.body else "BODY_TOO_BIG"

    def parameter(self, name: str) -> Parameter | None:
        return next((each for each in self.parameters if each.name == name), None)


TOPIC = Parameter(
    name="topic", kind=Kind.NAME, required=True, example="orders", description="Name of the topic."
)
CHANNEL = Parameter(
    name="channel", kind=Kind.NAME, required=True, example="archive", description="Name of the channel."
)
