"""An nsqlookupd in a process of its own, whose memory and log can be looked at."""

import os
import sys

from tests.fakes.lookup_client import LookupClient
from tests.fakes.nsqd_process import NsqdProcess


class LookupdProcess(NsqdProcess):
    """Runs from `with` to its end; `folder` gets its log."""

    def __init__(self, folder: str, *flags: str) -> None:
        self.log_path = os.path.join(folder, "nsqlookupd.log")
        addresses = [
            "--tcp-address=127.0.0.1:0",
            "--http-address=127.0.0.1:0",
            "--broadcast-address=127.0.0.1",
        ]
        self._command = [sys.executable, "-m", "nsqlake.apps.nsqlookupd", *addresses, *flags]

    def expect_alive(self) -> None:
        """It answers on a new connection."""
        with LookupClient(self.tcp_address) as client:
            client.expect_ok(b"PING\n")
