"""Addresses of HTTP servers as users write them: `host:port`, or a URL with path, query and user."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import SplitResult, unquote, urlencode, urlsplit

from nsqlake.cluster.errors import AddressError
from nsqlake.runtime.addresses import MAX_PORT, join_host_port

NSQD_HTTP_PORT = 4151
NSQLOOKUPD_HTTP_PORT = 4161
SCHEME_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True)
class HttpAddress:
    """Two that ask the same server the same way are equal."""

    scheme: str
    host: str
    port: int
    path: str = ""  # "" unless the user named one other than "/"
    query: str = field(default="", repr=False)  # may hold a secret, as the next two
    user: str = field(default="", repr=False)
    password: str = field(default="", repr=False)

    def __str__(self) -> str:
        return join_host_port(self.host, self.port)

    @property
    def origin(self) -> str:
        return f"{self.scheme}://{self}"

    def url(self, path: str, params: Mapping[str, str] | None = None) -> str:
        """Where to send the question; never with user and password."""
        query = "&".join(part for part in (self.query, urlencode(params or {})) if part)
        return self._with_query(path, query)

    def shown_url(self, path: str, params: Mapping[str, str] | None = None) -> str:
        """For logs and errors: without the user's own query."""
        return self._with_query(path, urlencode(params or {}))

    def _with_query(self, path: str, query: str) -> str:
        return f"{self.origin}{self._place(path)}" + (f"?{query}" if query else "")

    def _place(self, path: str) -> str:
        """A path of the user's own is that of `/lookup`; everything else is found beside it."""
        if not self.path or path == "/lookup":
            return self.path or path
        return self.path.rpartition("/")[0] + path


def parse_http_address(text: str, *, default_port: int) -> HttpAddress:
    """Without a scheme it is http on `default_port`; AddressError for what cannot be asked."""
    has_scheme = "://" in text
    shown = text.rpartition("@")[2]
    if not text.isprintable() or any(character.isspace() for character in text):
        raise AddressError(repr(shown), "has characters that no address has")
    try:
        parts = urlsplit(text if has_scheme else f"http://{text}")
        port = parts.port
    except ValueError as error:
        raise AddressError(shown, "invalid host or port") from error
    _check(parts, port, shown)
    return HttpAddress(
        scheme=parts.scheme,
        host=parts.hostname or "",
        port=port or (SCHEME_PORTS[parts.scheme] if has_scheme else default_port),
        path="" if parts.path == "/" else parts.path,
        query=parts.query,
        user=unquote(parts.username or ""),
        password=unquote(parts.password or ""),
    )


def _check(parts: SplitResult, port: int | None, shown: str) -> None:
    if parts.scheme not in SCHEME_PORTS:
        raise AddressError(shown, "the scheme must be http or https")
    if not parts.hostname:
        raise AddressError(shown, "missing host")
    if port is not None and not 0 < port <= MAX_PORT:
        raise AddressError(shown, "invalid port")
