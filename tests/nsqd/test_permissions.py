"""Replies of an auth server: what they allow and which are refused."""

import json

import pytest

from nsqlake.nsqd.permissions import MAX_DECISIONS, Permission, ReplyError, decode_reply

NOW_NS = 1_700_000_000_000_000_000


def reply(*authorizations: dict[str, object], **fields: object) -> bytes:
    return json.dumps({"ttl": 60, "authorizations": list(authorizations)} | fields).encode()


def entry(
    topic: str = ".*", channels: object = (".*",), permissions: object = ("publish",)
) -> dict[str, object]:
    return {"topic": topic, "channels": channels, "permissions": permissions}


def test_a_reply_tells_who_the_client_is_and_for_how_long():
    state = decode_reply(reply(entry(), entry(), identity="me", identity_url="http://x"), now_ns=NOW_NS)

    assert (state.identity, state.identity_url, state.permission_count) == ("me", "http://x", 2)
    assert state.expires_ns == NOW_NS + 60_000_000_000
    assert not state.is_expired(NOW_NS + 59_999_999_999)
    assert state.is_expired(NOW_NS + 60_000_000_000)


@pytest.mark.parametrize("payload", [b'{"ttl":1}', b'{"ttl":1,"authorizations":null,"identity":null}'])
def test_what_is_absent_is_empty(payload):
    state = decode_reply(payload, now_ns=NOW_NS)

    assert (state.identity, state.identity_url, state.permission_count) == ("", "", 0)
    assert not state.is_allowed("t", "", Permission.PUBLISH)


@pytest.mark.parametrize(
    ("channels", "publish", "subscribe_c"),
    [
        ([".*"], True, True),
        (["^c$"], False, True),
        ([], False, False),
        (None, False, False),
        (["", "c"], True, True),
    ],
)
def test_publishing_needs_a_channel_that_matches_the_empty_name(channels, publish, subscribe_c):
    state = decode_reply(reply(entry("ok1", channels, ["publish", "subscribe"])), now_ns=NOW_NS)

    assert state.is_allowed("ok1", "", "publish") is publish
    assert state.is_allowed("ok1", "c", "subscribe") is subscribe_c
    assert not state.is_allowed("ok1", "cc", "subscribe") or channels == [".*"]


@pytest.mark.parametrize("permission", list(Permission))
def test_a_permission_allows_nothing_but_itself(permission):
    state = decode_reply(reply(entry(permissions=[permission])), now_ns=NOW_NS)

    assert [other for other in Permission if state.is_allowed("t", "", other)] == [permission]


def test_any_entry_suffices_but_it_must_match_alone():
    state = decode_reply(
        reply(entry("a", permissions=["publish"]), entry("b", permissions=["subscribe"])), now_ns=NOW_NS
    )

    assert state.is_allowed("a", "", "publish")
    assert state.is_allowed("b", "c", "subscribe")
    assert not state.is_allowed("b", "", "publish")
    assert not state.is_allowed("a", "c", "subscribe")


def test_a_topic_pattern_must_match_the_whole_name():
    state = decode_reply(reply(entry("o")), now_ns=NOW_NS)

    assert state.is_allowed("o", "", "publish")
    assert not state.is_allowed("foo", "", "publish")


def test_decisions_are_remembered_and_bounded():
    state = decode_reply(reply(entry("t[0-9]+")), now_ns=NOW_NS)

    answers = [state.is_allowed(f"t{number}", "", "publish") for number in range(MAX_DECISIONS + 1)]

    assert all(answers)
    assert len(state._decisions) == 1
    assert state.is_allowed(f"t{MAX_DECISIONS}", "", "publish")


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"not json",
        b"[]",
        b"null",
        b"\xff",
        b'{"ttl":NaN}',
        b'{"ttl":1,"ttl":2}',
        b"[" * 100_000,
        reply(ttl=0),
        reply(ttl=-1),
        reply(ttl=1.5),
        reply(ttl="60"),
        reply(ttl=True),
        reply(ttl=2**63),
        reply(ttl=None),
        b'{"authorizations":[]}',
        reply(identity=5),
        reply(authorizations={}),
        reply({"channels": [".*"], "permissions": ["publish"]}),
        reply(entry(topic=7)),
        reply(entry(channels="c")),
        reply(entry(permissions=["root"])),
        reply(entry(permissions="publish")),
        reply(entry(topic="(?=a)")),
        reply(entry(channels=["("])),
        reply(*[entry(f"{number}.*x{{900}}") for number in range(30)]),
    ],
)
def test_a_reply_that_is_not_exactly_right_is_refused_as_a_whole(payload):
    with pytest.raises(ReplyError):
        decode_reply(payload, now_ns=NOW_NS)
