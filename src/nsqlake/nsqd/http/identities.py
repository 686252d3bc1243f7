"""Who sends a request: the secret in its `Authorization` header, and what the auth server says of it.

`Authorization: Bearer <secret>`, or HTTP Basic with the secret as password. A secret in a URL would end up in
logs, so there is no parameter for it.
"""

import asyncio
import base64
import binascii
import hashlib
import secrets
from collections import OrderedDict

from nsqlake.nsqd.auth import AuthError, AuthServers, AuthState
from nsqlake.runtime.http import HttpError, Request

__all__ = ["MAX_IDENTITIES", "Identities", "secret_of"]

MAX_IDENTITIES = 1_024

_CHALLENGE = (("WWW-Authenticate", "Bearer"),)
_SECOND_NS = 1_000_000_000

_Key = tuple[bytes, str, str, bool]  # digest of the secret, address, common name, TLS


class Identities:
    """What the auth server said, kept for its time to live and for a bounded number of clients."""

    def __init__(self, servers: AuthServers) -> None:
        self._servers = servers
        self._states: OrderedDict[_Key, AuthState] = OrderedDict()
        self._asking: dict[_Key, asyncio.Task[AuthState]] = {}
        # What is kept beyond a request is a digest with a key of this process, of one size whatever was sent.
        self._salt = secrets.token_bytes(16)

    def __len__(self) -> int:
        return len(self._states)

    def known(self, request: Request) -> AuthState | None:
        """Who it is, if that need not be asked. Raises 401 without credentials."""
        key = self._key(_required_secret(request), request)
        state = self._states.get(key)
        if state is not None and self._servers.is_expired(state):
            del self._states[key]
            return None
        return state

    async def identify(self, request: Request) -> AuthState:
        """Who it is. Raises 401 for nobody we know, 429 after too many failures, 503 if none can be asked."""
        secret = _required_secret(request)
        key = self._key(secret, request)
        asking = self._asking.get(key)
        if asking is None:
            asking = asyncio.ensure_future(self._ask(key, secret, request))
            self._asking[key] = asking
            asking.add_done_callback(lambda _: self._asking.pop(key, None))
        try:
            state = await asyncio.shield(asking)
        except AuthError as error:
            raise _refusal(error) from error
        if not state.permission_count:
            raise HttpError(401, "UNAUTHORIZED", headers=_CHALLENGE, reason="no authorizations found")
        return state

    async def _ask(self, key: _Key, secret: bytes, request: Request) -> AuthState:
        state = await self._servers.query(
            secret, remote_ip=request.remote_ip, common_name=request.common_name, is_tls=request.is_tls
        )
        if state.permission_count:
            self._states[key] = state
            self._states.move_to_end(key)
            if len(self._states) > MAX_IDENTITIES:
                self._states.popitem(last=False)
        return state

    def _key(self, secret: bytes, request: Request) -> _Key:
        digest = hashlib.blake2b(secret, key=self._salt, digest_size=32).digest()
        return digest, request.remote_ip, request.common_name, request.is_tls


def secret_of(request: Request) -> bytes | None:
    """The secret of a request, None when it has none that can be read."""
    scheme, _, credentials = request.headers.get("authorization", "").partition(" ")
    credentials = credentials.strip()
    if scheme.lower() == "bearer":
        return credentials.encode("latin-1") or None
    if scheme.lower() != "basic":
        return None
    try:
        decoded = base64.b64decode(credentials, validate=True)
    except (binascii.Error, ValueError):
        return None
    return decoded.partition(b":")[2] or None


def _required_secret(request: Request) -> bytes:
    secret = secret_of(request)
    if secret is None:
        raise HttpError(401, "UNAUTHORIZED", headers=_CHALLENGE, reason="credentials are missing")
    return secret


def _refusal(error: AuthError) -> HttpError:
    if error.wait_ns:
        wait_s = -(-error.wait_ns // _SECOND_NS)
        headers = (("Retry-After", str(wait_s)),)
        return HttpError(429, "TOO_MANY_FAILURES", headers=headers, reason=f"try again in {wait_s} s")
    if error.is_refusal:
        return HttpError(401, "UNAUTHORIZED", headers=_CHALLENGE, reason="credentials are not valid")
    return HttpError(503, "AUTH_UNAVAILABLE", reason="no auth server gave a valid answer")
