"""Which handler a method and a path belong to, and what to say when there is none."""

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from urllib.parse import quote

from nsqlake.runtime.http.errors import HttpError
from nsqlake.runtime.http.request import Params, Request, decode_escapes, parse_query
from nsqlake.runtime.http.response import Later, Response, error_response

__all__ = ["Handler", "Route", "Router", "Target"]

Handler = Callable[[Request], Response | Later | Awaitable[Response]]
Methods = dict[str, "Route"]

DISCARDED_BODY_BYTES = 64 * 1024  # read and thrown away where no body belongs
MAX_CACHED_TARGETS = 1_024
MAX_CACHED_TARGET_BYTES = 512
_SAFE_IN_PATH = "/:@!$&'()*+,;=~"


@dataclass(frozen=True)
class Route:
    """One method of one path, such as `/pub` or `/config/{key}`, and its limits.

    Without `max_body_bytes` a small body is tolerated and thrown away. `plain` answers lack NSQ's own header.
    A handler that exceeds `deadline_s` is answered for with 503 TIMEOUT, but not interrupted.
    """

    method: str
    path: str
    handler: Handler
    max_body_bytes: int = 0
    too_big: HttpError = field(default_factory=lambda: HttpError(413, "BODY_TOO_BIG"))
    deadline_s: float = 30.0
    plain: bool = False


class Target:
    """What a method and a request target lead to; a path that has no route leads to its refusal."""

    __slots__ = ("_is_parsed", "_params", "handler", "path", "path_params", "query", "route", "too_big")

    def __init__(
        self, route: Route, path: str, query: str, path_params: dict[str, str], too_big: Response
    ) -> None:
        self.route, self.handler, self.too_big = route, route.handler, too_big
        self.path, self.query, self.path_params = path, query, path_params
        self._params: Params | None = None
        self._is_parsed = False

    @property
    def params(self) -> Params | None:
        """None when the query is malformed."""
        if not self._is_parsed:
            self._params, self._is_parsed = parse_query(self.query), True
        return self._params

    @property
    def body_limit_bytes(self) -> int:
        return self.route.max_body_bytes or DISCARDED_BODY_BYTES


class _Pattern:
    """A path with one element that may be anything: `before` + value + `after`."""

    def __init__(self, path: str) -> None:
        self.before, _, rest = path.partition("{")
        self.name, _, self.after = rest.partition("}")
        self.methods: Methods = {}

    def value_in(self, path: str) -> str:
        """The value, "" if `path` is not of this pattern."""
        if not (path.startswith(self.before) and path.endswith(self.after)):
            return ""
        value = path[len(self.before) : len(path) - len(self.after)]
        return "" if "/" in value else value

    def tidied(self, path: str) -> str:
        """`path` with the pattern's own spelling, "" if it is not of this pattern in any spelling."""
        start, end = path[: len(self.before)], path[len(path) - len(self.after) :]
        value = self.value_in(self.before + path[len(start) : len(path) - len(self.after)] + self.after)
        is_alike = start.lower() == self.before.lower() and end.lower() == self.after.lower()
        return self.before + value + self.after if value and is_alike else ""


class Router:
    """The routes of a server. What a target leads to is remembered, for a bounded number of targets."""

    def __init__(self, routes: Iterable[Route]) -> None:
        self._exact: dict[str, Methods] = {}
        self._patterns: dict[str, _Pattern] = {}
        self._spellings: dict[str, str] = {}
        self._targets: dict[tuple[str, str], Target] = {}
        for route in routes:
            self._add(route)

    def _add(self, route: Route) -> None:
        if "{" in route.path:
            methods = self._patterns.setdefault(route.path, _Pattern(route.path)).methods
        else:
            methods = self._exact.setdefault(route.path, {})
            self._spellings[_tidy(route.path).lower()] = route.path
        if route.method in methods:
            raise ValueError(f"two routes for {route.method} {route.path}")
        methods[route.method] = route

    def resolve(self, method: str, target: str) -> Target:
        """`target` is that of the request line, each byte a character."""
        known = self._targets.get((method, target))
        if known is not None:
            return known
        resolved = self._resolve(method, target)
        if len(target) <= MAX_CACHED_TARGET_BYTES:
            if len(self._targets) >= MAX_CACHED_TARGETS:
                self._targets.clear()
            self._targets[method, target] = resolved
        return resolved

    def _resolve(self, method: str, target: str) -> Target:
        raw_path, mark, query = _without_authority(target).partition("?")
        path = decode_escapes(raw_path)
        if raw_path == "*" and method == "OPTIONS":
            return _fixed(raw_path, query, Response(), plain=True)
        if path is None or not path.startswith("/"):
            return _refused(raw_path, query, HttpError(400, "INVALID_REQUEST"))
        methods, path_params = self._find(path)
        route = methods.get(method)
        if route is not None:
            return Target(route, path, query, path_params, error_response(route.too_big))
        right_path = self._right_path(method, path)
        if right_path:
            location = quote(right_path, _SAFE_IN_PATH) + mark + query
            status = 301 if method == "GET" else 307
            return _fixed(path, query, Response(status, headers=(("Location", location),)), plain=True)
        if not methods:
            return _refused(path, query, HttpError(404, "NOT_FOUND"))
        allow = (("Allow", ", ".join(sorted({*methods, "OPTIONS"}))),)
        if method == "OPTIONS":
            return _fixed(path, query, Response(headers=allow), plain=True)
        return _refused(path, query, HttpError(405, "METHOD_NOT_ALLOWED", headers=allow))

    def _find(self, path: str) -> tuple[Methods, dict[str, str]]:
        methods = self._exact.get(path)
        if methods is not None:
            return methods, {}
        for pattern in self._patterns.values():
            value = pattern.value_in(path)
            if value:
                return pattern.methods, {pattern.name: value}
        return {}, {}

    def _right_path(self, method: str, path: str) -> str:
        """The path that was meant, "" if there is none: other case, doubled or trailing slashes, dots."""
        tidy = _tidy(path)
        candidates = [self._spellings.get(tidy.lower(), "")]
        candidates += [pattern.tidied(tidy) for pattern in self._patterns.values()]
        for candidate in candidates:
            if candidate and candidate != path and method in self._find(candidate)[0]:
                return candidate
        return ""


def _without_authority(target: str) -> str:
    """A proxy's form, `http://host/path`, without its host."""
    scheme, separator, rest = target.partition("://")
    if not separator or scheme.lower() not in ("http", "https"):
        return target
    start = min((at for at in (rest.find("/"), rest.find("?")) if at >= 0), default=len(rest))
    path = rest[start:]
    return path if path.startswith("/") else "/" + path


def _tidy(path: str) -> str:
    elements: list[str] = []
    for element in path.split("/"):
        if element == "..":
            del elements[-1:]
        elif element not in ("", "."):
            elements.append(element)
    return "/" + "/".join(elements)


def _refused(path: str, query: str, error: HttpError) -> Target:
    return _fixed(path, query, error_response(error), plain=False)


def _fixed(path: str, query: str, response: Response, *, plain: bool) -> Target:
    route = Route("", path, lambda _: response, plain=plain)
    return Target(route, path, query, {}, response)
