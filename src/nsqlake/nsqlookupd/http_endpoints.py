"""The HTTP API of nsqlookupd. Codes and the order of the checks are NSQ's."""

from collections import Counter
from collections.abc import Callable

from nsqlake import NSQ_VERSION
from nsqlake.nsqlookupd.dumps import Dumps
from nsqlake.nsqlookupd.errors import RegistrationLimitError
from nsqlake.nsqlookupd.registration_db import RegistrationDb
from nsqlake.nsqlookupd.views import Views
from nsqlake.runtime.clock import Clock
from nsqlake.runtime.http import Handler, HttpError, Request, Response, Route, json_response, text_response
from nsqlake.runtime.http.audit import record_change
from nsqlake.runtime.http.response import JSON_TYPE
from nsqlake.wire.names import is_valid_name

__all__ = ["HttpApi"]

METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"
WILDCARD = "*"

OK = text_response("OK")
DONE = Response()
INFO = json_response({"version": NSQ_VERSION})

Change = Callable[[Request], None]


class HttpApi:
    """`metrics` renders the figures; `request_counts` are by path."""

    def __init__(self, db: RegistrationDb, clock: Clock, metrics: Callable[[], bytes]) -> None:
        self._db, self._clock, self._metrics = db, clock, metrics
        self._views, self._dumps = Views(db), Dumps(db)
        self.request_counts: Counter[str] = Counter()

    def routes(self) -> list[Route]:
        questions: list[tuple[str, Handler]] = [
            ("/ping", lambda _: OK),
            ("/info", lambda _: INFO),
            ("/topics", lambda _: _json(self._views.topics())),
            ("/channels", lambda request: _json(self._views.channels(request.argument("topic")))),
            ("/lookup", self._lookup),
            ("/nodes", self._nodes),
            ("/debug", self._debug),
            ("/metrics", lambda _: Response(200, self._metrics(), METRICS_TYPE)),
        ]
        changes: list[tuple[str, Change]] = [
            ("/topic/create", self._create_topic),
            ("/topic/delete", self._delete_topic),
            ("/topic/tombstone", self._tombstone),
            ("/channel/create", self._create_channel),
            ("/channel/delete", self._delete_channel),
        ]
        return [
            *(
                Route("GET", path, self._counted(path, handler), plain=path == "/ping")
                for path, handler in questions
            ),
            *(Route("POST", path, self._counted(path, _recorded(change))) for path, change in changes),
        ]

    def _counted(self, path: str, handler: Handler) -> Handler:
        def handle(request: Request) -> object:
            self.request_counts[path] += 1
            return handler(request)

        return handle  # type: ignore[return-value]

    # Questions ------------------------------------------------------------------------------------------

    def _lookup(self, request: Request) -> Response:
        topic = request.argument("topic")
        if not self._db.has_topic(topic):
            raise HttpError(404, "TOPIC_NOT_FOUND")
        return _json(self._views.lookup(topic, self._clock.now_ns()))

    async def _nodes(self, _request: Request) -> Response:
        return _json(await self._views.nodes(self._clock.now_ns()))

    async def _debug(self, request: Request) -> Response:
        return await self._dumps.take(request.params.get("topic"))

    # Changes --------------------------------------------------------------------------------------------

    def _create_topic(self, request: Request) -> None:
        self._create(_valid_name(request, "topic"))

    def _create_channel(self, request: Request) -> None:
        self._create(_valid_name(request, "topic"), _valid_name(request, "channel"))

    def _create(self, topic: str, channel: str = "") -> None:
        try:
            self._db.create(topic, channel)
        except RegistrationLimitError as error:
            raise HttpError(429, "TOO_MANY_REGISTRATIONS", reason=str(error)) from error

    def _delete_topic(self, request: Request) -> None:
        self._db.delete_topic(_one_topic(request))

    def _delete_channel(self, request: Request) -> None:
        if not self._db.delete_channel(_valid_name(request, "topic"), _valid_name(request, "channel")):
            raise HttpError(404, "CHANNEL_NOT_FOUND")

    def _tombstone(self, request: Request) -> None:
        topic, node = _one_topic(request), request.argument("node")
        self._db.tombstone(topic, node, self._clock.now_ns())


def _recorded(change: Change) -> Handler:
    def handle(request: Request) -> Response:
        status = 500
        try:
            change(request)
            status = DONE.status
        except HttpError as error:
            status = error.status
            raise
        finally:
            record_change(request, ("topic", "channel", "node"), status)
        return DONE

    return handle


def _valid_name(request: Request, name: str) -> str:
    """400 MISSING_ARG_<NAME>, INVALID_ARG_<NAME>."""
    value = request.argument(name)
    if not is_valid_name(value.encode()):
        raise HttpError(400, f"INVALID_ARG_{name.upper()}")
    return value


def _one_topic(request: Request) -> str:
    """NSQ takes any name, and `*` for all topics at once: one slip would take everything off the lists."""
    topic = request.argument("topic")
    if topic == WILDCARD:
        raise HttpError(400, "INVALID_ARG_TOPIC", reason="one topic at a time")
    return topic


def _json(body: bytes) -> Response:
    return Response(200, body, JSON_TYPE)
