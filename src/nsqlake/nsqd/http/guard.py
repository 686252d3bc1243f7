"""The permission check in front of every endpoint, and the record of what administrators did.

Without an auth server, or with `--http-auth=off`, the API is as open as NSQ's, except what is for this
machine only. With one, everything but the OPEN endpoints needs credentials and the endpoint's permission.
"""

from typing import TYPE_CHECKING

from nsqlake.nsqd.access import Access, is_allowed
from nsqlake.nsqd.http.answering import Answer, reporting_failures, settle
from nsqlake.nsqd.http.endpoints import Endpoint
from nsqlake.nsqd.http.locality import is_local
from nsqlake.nsqd.permissions import AuthState
from nsqlake.runtime.http import Handler, HttpError, Request, Response
from nsqlake.runtime.http.audit import record_change

if TYPE_CHECKING:
    from nsqlake.nsqd.http.identities import Identities

__all__ = ["Guard"]

AUDITED = (Access.ADMIN, Access.LOOPBACK_OR_ADMIN)


class Guard:
    """Makes the handlers that the router gets. `identities` is None when nobody has to say who they are."""

    def __init__(self, identities: "Identities | None") -> None:
        self._identities = identities

    def protect(self, endpoint: Endpoint) -> Handler:
        handler = endpoint.handler
        if endpoint.access is not Access.PUBLISH:  # which reports its own, without a detour
            handler = reporting_failures(handler)
        if endpoint.access in AUDITED:
            return self._audited(endpoint, handler)
        if endpoint.access is Access.OPEN or self._identities is None:
            return handler
        return self._permitted(endpoint, handler, self._identities)

    def _permitted(self, endpoint: Endpoint, handler: Handler, identities: "Identities") -> Handler:
        def handle(request: Request) -> Answer:
            state = identities.known(request)
            if state is None:
                return ask(request)
            _require(endpoint, request, state)
            return handler(request)

        async def ask(request: Request) -> Response:
            _require(endpoint, request, await identities.identify(request))
            return await settle(handler(request))

        return handle

    def _audited(self, endpoint: Endpoint, handler: Handler) -> Handler:
        async def handle(request: Request) -> Response:
            state: AuthState | None = None
            status = 500
            try:
                state = await self._admit(endpoint, request)
                response = await settle(handler(request))
                status = response.status
                return response
            except HttpError as error:
                status = error.status
                raise
            finally:
                _record(endpoint, request, state, status)

        return handle

    async def _admit(self, endpoint: Endpoint, request: Request) -> AuthState | None:
        """Who wants to do it, None if nobody asks; HttpError if they may not."""
        identities = self._identities
        if identities is None:
            if endpoint.access is Access.LOOPBACK_OR_ADMIN and not is_local(request):
                raise HttpError(403, "FORBIDDEN", reason="only from the machine that nsqd runs on")
            return None
        state = identities.known(request) or await identities.identify(request)
        _require(endpoint, request, state)
        return state


def _require(endpoint: Endpoint, request: Request, state: AuthState) -> None:
    """What the permission is about comes from the parameters that the handler will read."""
    topic, channel = _named(endpoint, request, "topic"), _named(endpoint, request, "channel")
    if not is_allowed(state, endpoint.access, topic, channel):
        raise HttpError(403, "FORBIDDEN", reason=f"needed: {endpoint.access.value}")


def _named(endpoint: Endpoint, request: Request, name: str) -> str:
    """The value of a parameter that the endpoint has, "" if it was not given and need not be."""
    parameter = endpoint.parameter(name)
    if parameter is None:
        return ""
    value = request.params.get(name)
    if value is None and parameter.required:
        raise HttpError(400, f"MISSING_ARG_{name.upper()}")
    return value or ""


def _record(endpoint: Endpoint, request: Request, state: AuthState | None, status: int) -> None:
    names = [parameter.name for parameter in endpoint.parameters if not parameter.in_path]
    record_change(request, names, status, None if state is None else state.identity)
