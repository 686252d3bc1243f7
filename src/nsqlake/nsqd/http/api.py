"""The HTTP API of one nsqd: every endpoint, behind its permission check, as a router."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from nsqlake.nsqd.http import (
    channel_endpoints,
    config_endpoints,
    dead_letter_endpoints,
    debug_endpoints,
    deferred_endpoints,
    drain_endpoint,
    log_endpoints,
    message_endpoints,
    openapi,
    publish_endpoints,
    replay_endpoints,
    stats_endpoints,
    topic_endpoints,
    txn_endpoints,
)
from nsqlake.nsqd.http.endpoints import Endpoint
from nsqlake.nsqd.http.guard import Guard
from nsqlake.nsqd.http.services import Services
from nsqlake.nsqd.option_choices import HttpAuth
from nsqlake.runtime.http import Router

if TYPE_CHECKING:
    from nsqlake.nsqd.http.identities import Identities

__all__ = ["SOURCES", "HttpApi"]

SOURCES: tuple[Callable[[Services], list[Endpoint]], ...] = (
    publish_endpoints.endpoints,
    topic_endpoints.endpoints,
    channel_endpoints.endpoints,
    stats_endpoints.endpoints,
    config_endpoints.endpoints,
    debug_endpoints.endpoints,
    log_endpoints.endpoints,
    replay_endpoints.endpoints,
    message_endpoints.endpoints,
    deferred_endpoints.endpoints,
    dead_letter_endpoints.endpoints,
    txn_endpoints.endpoints,
    drain_endpoint.endpoints,
    openapi.endpoints,
)


class HttpApi:
    """`endpoints` is the whole table, deprecated aliases included; `router` serves it."""

    def __init__(self, services: Services) -> None:
        services.identities = _identities(services)
        rows = [endpoint for source in SOURCES for endpoint in source(services)]
        self.endpoints: list[Endpoint] = [each for row in rows for each in row.with_aliases()]
        services.endpoints = self.endpoints
        guard = Guard(services.identities)
        self.router = Router(each.route(guard.protect(each)) for each in self.endpoints)


def _identities(services: Services) -> "Identities | None":
    if services.auth is None or services.options.http_auth is HttpAuth.OFF:
        return None
    from nsqlake.nsqd.http.identities import Identities  # brings httpx, which few installations need

    return Identities(services.auth)
