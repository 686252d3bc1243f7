"""`/debug`: what a Python daemon can show under the names that Go's tools use."""

import gc
import sys

from nsqlake.nsqd.http.arguments import integer
from nsqlake.nsqd.http.endpoints import EMPTY, TEXT, Access, Endpoint, Kind, Parameter, Reply
from nsqlake.nsqd.http.introspection import profile, stack_dump, thread_list, traced_memory
from nsqlake.nsqd.http.services import Services
from nsqlake.runtime.go_text import IntegerRangeError, go_quote, parse_decimal_integer
from nsqlake.runtime.http import Handler, HttpError, Request, Response, text_response

__all__ = ["endpoints"]

MAX_SECONDS = 60
PROFILE_SECONDS = 30
HEAP_SECONDS = 5
SHOWN_LENGTH = 64

_INDEX = """/debug/pprof/
cmdline       the command line, arguments separated by NUL
goroutine     stacks of all threads and tasks
heap          what was allocated in the next ?seconds= (5) and is still there
profile       stacks sampled for ?seconds= (30), for flame graphs
threadcreate  threads
block         nothing
"""


class _Debug:
    """The handlers. Only one measurement at a time: each slows the daemon down."""

    def __init__(self) -> None:
        self._is_measuring = False

    def index(self, _request: Request) -> Response:
        return text_response(_INDEX)

    def cmdline(self, _request: Request) -> Response:
        return text_response("\0".join(sys.argv))

    def goroutine(self, _request: Request) -> Response:
        return text_response(stack_dump())

    def threads(self, _request: Request) -> Response:
        return text_response(thread_list())

    def block(self, _request: Request) -> Response:
        return text_response("")

    async def heap(self, request: Request) -> Response:
        seconds = integer(request, "seconds", HEAP_SECONDS, most=MAX_SECONDS)
        self._begin()
        try:
            return text_response(await traced_memory(seconds))
        finally:
            self._is_measuring = False

    async def profile(self, request: Request) -> Response:
        seconds = integer(request, "seconds", PROFILE_SECONDS, least=1, most=MAX_SECONDS)
        self._begin()
        try:
            return text_response(await profile(seconds))
        finally:
            self._is_measuring = False

    def _begin(self) -> None:
        if self._is_measuring:
            raise HttpError(429, "BUSY", reason="another measurement is running")
        self._is_measuring = True

    def set_block_rate(self, request: Request) -> Response:
        """There is nothing to set, but Go's tools may ask for it."""
        rate = request.params.get("rate") or ""
        try:
            parse_decimal_integer(rate)
        except ValueError as error:
            fault = "value out of range" if isinstance(error, IntegerRangeError) else "invalid syntax"
            shown = go_quote(rate[:SHOWN_LENGTH])
            return text_response(f"invalid block rate : strconv.Atoi: parsing {shown}: {fault}", 400)
        return Response()

    def free_memory(self, _request: Request) -> Response:
        gc.collect()
        return Response()


_SECONDS = Parameter(
    name="seconds", kind=Kind.INTEGER, example="1", description="How long to measure, up to 60."
)
_RATE = Parameter(name="rate", kind=Kind.INTEGER, required=True, example="1", description="Without effect.")
_TEXT = Reply(description="Text for people.", content_type=TEXT, schema={"type": "string"})
_MEASURED = ((400, "INVALID_ARG_SECONDS"), (429, "BUSY"))


def endpoints(_services: Services) -> list[Endpoint]:
    debug = _Debug()
    return [
        _show("", debug.index, "What there is"),
        _show("cmdline", debug.cmdline, "The command line"),
        _show("goroutine", debug.goroutine, "Stacks of all threads and tasks"),
        _show("threadcreate", debug.threads, "Threads"),
        _show("block", debug.block, "Nothing: Python knows no such profile"),
        _show("heap", debug.heap, "Allocations by line of code", _SECONDS),
        _show("profile", debug.profile, "Sampled stacks", _SECONDS),
        _do("PUT", "/debug/setblockrate", debug.set_block_rate, "Without effect", (_RATE,)),
        _do("POST", "/debug/freememory", debug.free_memory, "Run the garbage collector"),
    ]


def _show(name: str, handler: Handler, summary: str, *parameters: Parameter) -> Endpoint:
    return Endpoint(
        method="GET",
        path=f"/debug/pprof/{name}",
        handler=handler,
        access=Access.LOOPBACK_OR_ADMIN,
        tag="debug",
        summary=summary,
        parameters=parameters,
        replies={200: _TEXT},
        errors=_MEASURED if parameters else (),
        plain=True,
        deadline_s=2.0 * MAX_SECONDS,
    )


def _do(
    method: str, path: str, handler: Handler, summary: str, parameters: tuple[Parameter, ...] = ()
) -> Endpoint:
    return Endpoint(
        method=method,
        path=path,
        handler=handler,
        access=Access.LOOPBACK_OR_ADMIN,
        tag="debug",
        summary=summary,
        parameters=parameters,
        replies={200: EMPTY, 400: _TEXT} if parameters else {200: EMPTY},
    )
