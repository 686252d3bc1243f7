"""What an auth server's reply allows."""

import json
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any

import msgspec

from nsqlake.errors import NsqlakeError
from nsqlake.nsqd.pattern_syntax import PatternError
from nsqlake.nsqd.patterns import Pattern, compile_pattern

SECOND_NS = 1_000_000_000
MAX_TTL_S = 2**63 - 1  # Go's int
MAX_COST = 20_000  # of all patterns in a reply: keeps decoding and deciding far below a second
MAX_DECISIONS = 1_024


class Permission(StrEnum):
    PUBLISH = "publish"
    SUBSCRIBE = "subscribe"
    ADMIN = "admin"  # ours: for the HTTP API


class ReplyError(NsqlakeError):
    """A reply that cannot be trusted, as a whole."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Authorization:
    """One entry of a reply; names must match as a whole."""

    topic: Pattern
    channels: tuple[Pattern, ...]
    permissions: frozenset[str]

    def allows(self, topic: str, channel: str, permission: str) -> bool:
        return (
            permission in self.permissions
            and self.topic.matches(topic)
            and any(pattern.matches(channel) for pattern in self.channels)
        )


class AuthState:
    """Who a client is and what it may do until `expires_ns`."""

    def __init__(
        self,
        identity: str,
        identity_url: str,
        authorizations: tuple[Authorization, ...],
        expires_ns: int,
    ) -> None:
        self.identity, self.identity_url = identity, identity_url
        self.authorizations = authorizations
        self.expires_ns = expires_ns
        self._decisions: dict[tuple[str, str, str], bool] = {}

    @property
    def permission_count(self) -> int:
        return len(self.authorizations)

    def is_expired(self, now_ns: int) -> bool:
        return now_ns >= self.expires_ns

    def is_allowed(self, topic: str, channel: str, permission: str) -> bool:
        """Publishing concerns no channel: `channel` is then "", which an entry's channels must match too."""
        question = (topic, channel, permission)
        decision = self._decisions.get(question)
        if decision is None:
            if len(self._decisions) >= MAX_DECISIONS:
                self._decisions.clear()
            decision = any(entry.allows(*question) for entry in self.authorizations)
            self._decisions[question] = decision
        return decision


class _Entry(msgspec.Struct):
    topic: str
    channels: list[str] | None = None
    permissions: list[Permission] | None = None


class _Reply(msgspec.Struct):
    ttl: Annotated[int, msgspec.Meta(gt=0, le=MAX_TTL_S)]
    identity: str | None = None
    identity_url: str | None = None
    authorizations: list[_Entry] | None = None


def decode_reply(payload: bytes, *, now_ns: int) -> AuthState:
    """The state a reply stands for; ReplyError when any part of it is not as it must be."""
    try:
        reply = msgspec.convert(decode_json(payload), _Reply)
    except msgspec.ValidationError as error:
        raise ReplyError(str(error)) from error
    entries = reply.authorizations or []
    _check_cost(entries)
    return AuthState(
        reply.identity or "",
        reply.identity_url or "",
        tuple(_authorization(entry) for entry in entries),
        now_ns + reply.ttl * SECOND_NS,
    )


def decode_json(payload: bytes) -> Any:
    """Strict JSON: no duplicate keys, no NaN, no endless nesting."""
    try:
        return json.loads(payload, object_pairs_hook=_unique_keys, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise ReplyError("not valid JSON") from error


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("duplicate key")
    return found


def _refuse_constant(name: str) -> None:
    raise ValueError(name)


def _check_cost(entries: list[_Entry]) -> None:
    cost = 0
    for entry in entries:
        for text in (entry.topic, *(entry.channels or [])):
            cost += _compile(text).cost
            if cost > MAX_COST:
                raise ReplyError("too many or too large regular expressions")


def _authorization(entry: _Entry) -> Authorization:
    return Authorization(
        _compile(entry.topic),
        tuple(_compile(text) for text in entry.channels or []),
        frozenset(entry.permissions or []),
    )


def _compile(text: str) -> Pattern:
    try:
        return compile_pattern(text)
    except PatternError as error:
        raise ReplyError(f"bad regular expression: {error}") from error
