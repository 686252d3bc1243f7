"""What one client may do: the auth server's answer, kept for its time to live."""

import json
from typing import TYPE_CHECKING, Protocol

from nsqlake.nsqd.access import COMMANDS, is_allowed
from nsqlake.wire.errors import ClientError

if TYPE_CHECKING:
    from nsqlake.nsqd.auth import AuthServers, AuthState

__all__ = ["Authorisation"]


class Peer(Protocol):
    remote_ip: str

    @property
    def common_name(self) -> str: ...


class Authorisation:
    """Denies by default: without a valid answer of the auth server nothing is allowed."""

    def __init__(self, servers: "AuthServers | None") -> None:
        self._servers = servers
        self._secret = b""
        self.state: AuthState | None = None

    def is_allowed(self, command: str, topic: str, channel: str) -> bool:
        """Whether the command may go ahead at once; if not, `require` says why or asks again."""
        if self._servers is None:
            return True
        state = self.state
        return (
            state is not None
            and not self._servers.is_expired(state)
            and _permits(state, command, topic, channel)
        )

    async def require(self, command: str, topic: str, channel: str, peer: Peer, *, is_tls: bool) -> None:
        if self._servers is None:
            return
        if self.state is None:
            raise ClientError("E_AUTH_FIRST", f"AUTH required before {command}")
        if self._servers.is_expired(self.state):
            self.state = await self._query(peer, is_tls=is_tls)
        if not _permits(self.state, command, topic, channel):
            text = f'AUTH failed for {command} on "{topic}" "{channel}"'
            raise ClientError("E_UNAUTHORIZED", text)

    async def authenticate(self, secret: bytes, peer: Peer, *, is_tls: bool) -> bytes:
        """The answer to AUTH."""
        if self.state is not None:
            raise ClientError("E_INVALID", "AUTH already set")
        if self._servers is None:
            raise ClientError("E_AUTH_DISABLED", "AUTH disabled")
        self._secret = secret
        state = await self._query(peer, is_tls=is_tls)
        if not state.permission_count:
            raise ClientError("E_UNAUTHORIZED", "AUTH no authorizations found")
        self.state = state
        answer = {
            "identity": state.identity,
            "identity_url": state.identity_url,
            "permission_count": state.permission_count,
        }
        return json.dumps(answer, separators=(",", ":"), ensure_ascii=False).encode()

    async def _query(self, peer: Peer, *, is_tls: bool) -> "AuthState":
        from nsqlake.nsqd.auth import AuthError

        assert self._servers is not None
        try:
            return await self._servers.query(
                self._secret, remote_ip=peer.remote_ip, common_name=peer.common_name, is_tls=is_tls
            )
        except AuthError as error:
            raise ClientError("E_AUTH_FAILED", "AUTH failed") from error


def _permits(state: "AuthState", command: str, topic: str, channel: str) -> bool:
    return is_allowed(state, COMMANDS[command], topic, channel)
