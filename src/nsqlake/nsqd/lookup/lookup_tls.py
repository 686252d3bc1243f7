"""TLS to nsqlookupd: who is trusted, and the certificate that this node shows."""

from nsqlake.nsqd.options import NsqdOptions
from nsqlake.runtime.tls_context import build_client_context

__all__ = ["LookupTls"]


class LookupTls:
    """The context for new connections; certificate and host name of every nsqlookupd are verified."""

    def __init__(self, options: NsqdOptions) -> None:
        """StartupError when a file is not usable."""
        self._options = options
        self.reload()

    def reload(self) -> None:
        """Read the files again; StartupError, and the old context stays, when they are not usable."""
        self.context = build_client_context(
            self._options.lookupd_tls_root_ca_file,
            cert_file=self._options.lookupd_tls_cert,
            key_file=self._options.lookupd_tls_key,
        )

    @classmethod
    def from_options(cls, options: NsqdOptions) -> "LookupTls | None":
        """None unless it is wanted."""
        return cls(options) if options.lookupd_tls else None
