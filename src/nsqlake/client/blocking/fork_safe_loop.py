"""An event loop whose process may be forked."""

from __future__ import annotations

import contextlib
import socket
from typing import Any

import uvloop


class ForkSafeLoop(uvloop.Loop):
    """Resolves names in threads of Python.

    libuv has threads of its own for that, and waits for them at the end of a forked process, where they do
    not exist: it crashes. uvloop asks for an address even where it has one, so every connection is concerned.
    """

    async def getaddrinfo(
        self,
        host: Any,
        port: Any,
        *,
        family: int = 0,
        type: int = 0,
        proto: int = 0,
        flags: int = 0,
    ) -> Any:
        with contextlib.suppress(socket.gaierror):
            numeric = flags | socket.AI_NUMERICHOST
            return socket.getaddrinfo(host, port, family, type, proto, numeric)
        try:
            return await self.run_in_executor(
                None, socket.getaddrinfo, host, port, family, type, proto, flags
            )
        except RuntimeError as error:
            raise OSError("no threads any more: the interpreter ends") from error
