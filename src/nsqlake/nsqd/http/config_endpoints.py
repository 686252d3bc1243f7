"""`/config/{key}`: the options as they are, two of which can be changed while the daemon runs."""

import logging
from collections.abc import Callable
from urllib.parse import urlsplit

import msgspec

from nsqlake.nsqd.http.endpoints import JSON, TEXT, Access, Endpoint, Parameter, Reply, RequestBody
from nsqlake.nsqd.http.services import Services
from nsqlake.nsqd.options import NsqdOptions
from nsqlake.runtime.http import HttpError, Request, Response, text_response
from nsqlake.runtime.http.response import JSON_TYPE
from nsqlake.runtime.logs import LOG_LEVEL, set_log_level
from nsqlake.runtime.options import config_text, option_fields

__all__ = ["endpoints", "shown_options"]

logger = logging.getLogger(__name__)

MAX_LOOKUPDS = 256


class _Config:
    """The handlers."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._setters: dict[str, Callable[[bytes], None]] = {
            "nsqlookupd_tcp_addresses": self._set_lookupds,
            "log_level": self._set_log_level,
        }

    def get(self, request: Request) -> Response:
        return self._show(request.path_params["key"])

    def put(self, request: Request) -> Response:
        key = request.path_params["key"]
        if not request.body:
            raise HttpError(413, "INVALID_VALUE")
        setter = self._setters.get(key)
        if setter is None:
            raise HttpError(400, "INVALID_OPTION")
        setter(request.body)
        shown = self._show(key)
        logger.info("CONFIG: %s set to %s", key, shown.body.decode())
        return shown

    def _show(self, key: str) -> Response:
        text = config_text(shown_options(self._services), key)
        if text is None:
            raise HttpError(400, "INVALID_OPTION")
        return text_response(text) if _is_text(key) else Response(200, text.encode(), JSON_TYPE)

    def _set_lookupds(self, body: bytes) -> None:
        try:
            addresses = msgspec.json.decode(body, type=list[str] | None) or []
        except msgspec.DecodeError as error:
            raise HttpError(400, "INVALID_VALUE") from error
        if len(addresses) > MAX_LOOKUPDS:
            raise HttpError(400, "INVALID_VALUE", reason=f"more than {MAX_LOOKUPDS} addresses")
        self._services.announcements.set_addresses(addresses)
        self._change(lookupd_tcp_addresses=tuple(addresses))

    def _set_log_level(self, body: bytes) -> None:
        try:
            level = LOG_LEVEL.parse(body.decode("ascii"))
        except ValueError as error:
            raise HttpError(400, "INVALID_VALUE") from error
        set_log_level(level)
        self._change(log_level=level)

    def _change(self, **values: object) -> None:
        self._services.options = msgspec.structs.replace(self._services.options, **values)


def shown_options(services: Services) -> NsqdOptions:
    """With what follows from the listeners filled in, and without what may be a password."""
    options = services.options
    return msgspec.structs.replace(
        options,
        broadcast_tcp_port=options.broadcast_tcp_port or max(0, services.tcp_port),
        broadcast_http_port=options.broadcast_http_port or max(0, services.http_port),
        statsd_prefix=services.stats.statsd_target(max(0, services.http_port)).prefix,
        auth_http_addresses=tuple(map(_without_secrets, options.auth_http_addresses)),
    )


def _without_secrets(address: str) -> str:
    """An address without user, password and query."""
    if "://" not in address:
        return address.rpartition("@")[2].partition("?")[0]
    parts = urlsplit(address)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment="").geturl()


def _is_text(key: str) -> bool:
    """Whether the option is one whose value is shown as it is, not as JSON."""
    return any(field.option.config_key == key and isinstance(field.default, str) for field in _FIELDS)


_FIELDS = option_fields(NsqdOptions)
_KEY = Parameter(
    name="key",
    in_path=True,
    required=True,
    example="log_level",
    description="Name of an option as in the config file.",
)
_VALUE = Reply(
    description="The value: text as it is, everything else as JSON, durations in ns.",
    content_type=TEXT,
    schema={"type": "string"},
    example="2",
    also={JSON: {}},
)


def endpoints(services: Services) -> list[Endpoint]:
    config = _Config(services)
    return [
        Endpoint(
            method="GET",
            path="/config/{key}",
            handler=config.get,
            access=Access.OPEN,
            tag="node",
            summary="The value of an option",
            parameters=(_KEY,),
            replies={200: _VALUE},
            errors=((400, "INVALID_OPTION"),),
        ),
        Endpoint(
            method="PUT",
            path="/config/{key}",
            handler=config.put,
            access=Access.LOOPBACK_OR_ADMIN,
            tag="node",
            summary="Change log_level or nsqlookupd_tcp_addresses until the daemon stops",
            parameters=(_KEY,),
            body=RequestBody(
                description="A word such as debug, or a JSON array of host:port.",
                max_bytes=services.options.max_msg_size,
                too_big="INVALID_VALUE",
                content_type=TEXT,
                example="debug",
            ),
            replies={200: _VALUE},
            errors=((413, "INVALID_VALUE"), (400, "INVALID_OPTION"), (400, "INVALID_VALUE")),
        ),
    ]
