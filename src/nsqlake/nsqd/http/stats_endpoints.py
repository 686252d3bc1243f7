"""What the daemon tells of itself: `/ping`, `/info`, `/stats`, `/metrics`."""

from nsqlake.nsqd.http.arguments import flag
from nsqlake.nsqd.http.endpoints import JSON, OK_TEXT, TEXT, Access, Endpoint, Kind, Parameter, Reply
from nsqlake.nsqd.http.schemas import ref
from nsqlake.nsqd.http.services import Services
from nsqlake.nsqd.stats.info import Info
from nsqlake.nsqd.stats.snapshot import Query
from nsqlake.nsqd.stats.values import Stats, encode_stats
from nsqlake.runtime.http import Request, Response, json_response, text_response

__all__ = ["endpoints"]

METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class _Figures:
    """The handlers."""

    def __init__(self, services: Services) -> None:
        self._services, self._broker, self._stats = services, services.broker, services.stats

    def ping(self, _request: Request) -> Response:
        health = self._broker.health
        return text_response(f"NOK - {health}", 500) if health else text_response("OK")

    def info(self, _request: Request) -> Response:
        services = self._services
        return json_response(self._stats.info(tcp_port=services.tcp_port, http_port=services.http_port))

    async def stats(self, request: Request) -> Response:
        params = request.params
        stats = await self._stats.take_in_slices(
            Query(
                topic=params.get("topic") or "",
                channel=params.get("channel") or "",
                include_clients=flag(request, "include_clients", default=True),
                include_memory=flag(request, "include_mem", default=True),
            )
        )
        if params.get("format") == "json":
            return Response(200, encode_stats(stats), JSON)
        return text_response(await self._stats.text(stats))

    async def metrics(self, _request: Request) -> Response:
        return Response(200, await self._stats.metrics(), METRICS_TYPE)


_FILTERS = (
    Parameter(name="format", example="json", description="json; anything else is text."),
    Parameter(name="topic", kind=Kind.TEXT, example="orders", description="Only this topic."),
    Parameter(name="channel", kind=Kind.TEXT, example="archive", description="Only channels of this name."),
    Parameter(name="include_clients", kind=Kind.FLAG, description="Whether to list connections."),
    Parameter(name="include_mem", kind=Kind.FLAG, description="Whether to tell of memory."),
)


_NOT_OK = Reply(
    description="NOK and what someone must look at.",
    content_type=TEXT,
    schema={"type": "string"},
    example="NOK - TOPIC(orders): sync failed: input/output error",
)
_INFO = Reply(description="Durations in ns.", content_type=JSON, schema=ref(Info))
_STATS = Reply(
    description="JSON, or text.",
    content_type=JSON,
    schema=ref(Stats),
    also={TEXT: {"type": "string"}},
)
_METRICS = Reply(
    description="Prometheus' text format.",
    content_type=METRICS_TYPE,
    schema={"type": "string"},
)


def endpoints(services: Services) -> list[Endpoint]:
    figures = _Figures(services)
    return [
        Endpoint(
            method="GET",
            path="/ping",
            handler=figures.ping,
            access=Access.OPEN,
            tag="node",
            summary="Whether the daemon is well",
            replies={200: OK_TEXT, 500: _NOT_OK},
            plain=True,
        ),
        Endpoint(
            method="GET",
            path="/info",
            handler=figures.info,
            access=Access.OPEN,
            tag="node",
            summary="Version, ports and limits of the node",
            replies={200: _INFO},
        ),
        Endpoint(
            method="GET",
            path="/stats",
            handler=figures.stats,
            access=Access.AUTHENTICATED,
            tag="node",
            summary="Figures of topics, channels and clients",
            parameters=_FILTERS,
            replies={200: _STATS},
        ),
        Endpoint(
            method="GET",
            path="/metrics",
            handler=figures.metrics,
            access=Access.AUTHENTICATED,
            tag="node",
            summary="The same and more for Prometheus",
            replies={200: _METRICS},
        ),
    ]
