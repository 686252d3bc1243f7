"""Plain HTTP when TLS is required: everything is refused."""

from nsqlake.nsqd.option_choices import TLSRequired
from nsqlake.nsqd.options import NsqdOptions
from nsqlake.runtime.http import Request, Response
from nsqlake.runtime.http.response import JSON_TYPE

__all__ = ["TlsGate", "tls_gate"]


class TlsGate:
    """Sends everybody to HTTPS. NSQ's own text, spaces and all."""

    def __init__(self, https_port: int) -> None:
        body = b'{"message": "TLS_REQUIRED", "https_port": %d}' % https_port
        self._refusal = Response(403, body, JSON_TYPE)

    def __call__(self, _request: Request) -> Response:
        return self._refusal


def tls_gate(options: NsqdOptions, https_port: int) -> TlsGate | None:
    """None while plain HTTP is open."""
    return TlsGate(https_port) if options.tls_required is TLSRequired.TRUE else None
