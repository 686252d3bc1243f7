"""Who may do what: one table for the commands of TCP, one kind of permission for every endpoint of HTTP.

What is in neither table does not exist: a command without a row is refused, and an `Endpoint` cannot be made
without its `Access`.
"""

from collections.abc import Mapping
from enum import Enum
from typing import Final

from nsqlake.nsqd.permissions import AuthState, Permission

__all__ = ["COMMANDS", "Access", "is_allowed"]


class Access(Enum):
    """What somebody needs, once there is an auth server, to use a command or an endpoint.

    Names of topic and channel that are no part of a request are "", which a permission's patterns must match
    as well: `.*` does. So only who may administrate everything may administrate the node.
    """

    OPEN = "nothing"
    AUTHENTICATED = "any identity the auth server vouches for"
    PUBLISH = "publish on the topic"
    SUBSCRIBE = "subscribe on the topic and channel"
    SUBSCRIBED = "a subscription, which SUB gives"
    ADMIN = "admin on the topic and channel"
    LOOPBACK_OR_ADMIN = "admin on the node; without an auth server, to be on this machine"


COMMANDS: Final[Mapping[str, Access]] = {
    "IDENTIFY": Access.OPEN,
    "AUTH": Access.OPEN,
    "NOP": Access.OPEN,
    "PUB": Access.PUBLISH,
    "MPUB": Access.PUBLISH,
    "DPUB": Access.PUBLISH,
    "SUB": Access.SUBSCRIBE,
    "RDY": Access.SUBSCRIBED,
    "FIN": Access.SUBSCRIBED,
    "REQ": Access.SUBSCRIBED,
    "TOUCH": Access.SUBSCRIBED,
    "CLS": Access.SUBSCRIBED,
}

_PERMISSIONS: Final[Mapping[Access, Permission]] = {
    Access.PUBLISH: Permission.PUBLISH,
    Access.SUBSCRIBE: Permission.SUBSCRIBE,
    Access.ADMIN: Permission.ADMIN,
    Access.LOOPBACK_OR_ADMIN: Permission.ADMIN,
}


def is_allowed(state: AuthState, access: Access, topic: str, channel: str) -> bool:
    """Whether an identity has the permission that `access` asks for; publishing concerns no channel."""
    if access is Access.OPEN:
        return True
    if access is Access.AUTHENTICATED:
        return state.permission_count > 0
    permission = _PERMISSIONS.get(access)
    if permission is None:
        return False
    return state.is_allowed(topic, "" if access is Access.PUBLISH else channel, permission)
