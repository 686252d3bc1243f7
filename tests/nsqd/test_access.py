"""`COMMANDS` and `is_allowed`: one table, deny by default."""

import pytest

from nsqlake.nsqd.access import COMMANDS, Access, is_allowed
from nsqlake.nsqd.permissions import AuthState, decode_reply
from nsqlake.wire import commands


def state(*permissions: str, topic: str = ".*", channels: str = '[".*"]') -> AuthState:
    listed = ",".join(f'"{permission}"' for permission in permissions)
    entry = f'{{"topic":"{topic}","channels":{channels},"permissions":[{listed}]}}'
    return decode_reply(f'{{"ttl":1,"authorizations":[{entry}]}}'.encode(), now_ns=0)


def test_every_command_of_the_protocol_has_its_row() -> None:
    assert COMMANDS.keys() == commands.COMMANDS.keys()


@pytest.mark.parametrize("access", Access)
@pytest.mark.parametrize("permission", ["publish", "subscribe", "admin"])
def test_a_permission_opens_what_it_is_for(access: Access, permission: str) -> None:
    for_everybody = {Access.OPEN, Access.AUTHENTICATED}
    expected = (
        for_everybody
        | {
            "publish": {Access.PUBLISH},
            "subscribe": {Access.SUBSCRIBE},
            "admin": {Access.ADMIN, Access.LOOPBACK_OR_ADMIN},
        }[permission]
    )

    assert is_allowed(state(permission), access, "t", "c") is (access in expected)


def test_without_authorizations_nobody_is_known() -> None:
    nobody = decode_reply(b'{"ttl":1}', now_ns=0)

    assert is_allowed(nobody, Access.OPEN, "", "")
    assert not is_allowed(nobody, Access.AUTHENTICATED, "", "")


def test_publishing_concerns_no_channel() -> None:
    one_channel = state("publish", "admin", channels='["c"]')

    assert not is_allowed(one_channel, Access.PUBLISH, "t", "c")
    assert is_allowed(one_channel, Access.ADMIN, "t", "c")


def test_who_administrates_some_topics_does_not_administrate_the_node() -> None:
    assert not is_allowed(state("admin", topic="orders"), Access.LOOPBACK_OR_ADMIN, "", "")
    assert is_allowed(state("admin"), Access.LOOPBACK_OR_ADMIN, "", "")
