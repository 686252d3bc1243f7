"""Accepting connections; asyncio's own acceptor neither counts them nor copes with a lack of descriptors."""

import asyncio
import contextlib
import errno
import logging
import os
import resource
import socket
from collections.abc import Callable

from nsqlake.runtime.addresses import address_text
from nsqlake.runtime.listening_socket import open_listening_socket
from nsqlake.runtime.tasks import TaskSupervisor

logger = logging.getLogger(__name__)

ACCEPT_BURST = 64  # connections taken in one turn of the loop, so that those who are connected get theirs
EXHAUSTED_PAUSE_S = 1.0
LOG_INTERVAL_S = 10.0
MIN_RESERVED_DESCRIPTORS = 64
MAX_DESCRIPTORS = 1_048_576  # Linux: fs.nr_open, which an unlimited hard limit cannot exceed either
UNIX_PORT = -1  # NSQ reports it for unix sockets

# accept(2): network errors of the new connection, to be treated like "none is waiting".
_ERRORS_OF_ONE_CONNECTION = {
    errno.ECONNABORTED,
    errno.EHOSTDOWN,
    errno.EHOSTUNREACH,
    errno.ENETDOWN,
    errno.ENETUNREACH,
    errno.ENOPROTOOPT,
    errno.EPROTO,
}

OnClosed = Callable[[], None]
ProtocolFactory = Callable[[OnClosed], asyncio.BaseProtocol]


class Listener:
    """One listening address; while `limit` connections are open (0: no limit) new ones wait in the backlog.

    `protocol_factory` is given a function that its protocol must call in `connection_lost`.
    """

    def __init__(
        self,
        name: str,
        address: str,
        protocol_factory: ProtocolFactory,
        *,
        supervisor: TaskSupervisor,
        limit: int = 0,
        exhausted_pause_s: float = EXHAUSTED_PAUSE_S,
    ) -> None:
        """Binds at once: StartupError when the address cannot be had."""
        self.name = name
        self.open_count = 0
        self.accepted_count = 0  # since the start
        self._protocol_factory = protocol_factory
        self._supervisor = supervisor
        self._limit = limit
        self._pause_s = exhausted_pause_s
        self._pause: asyncio.TimerHandle | None = None
        self._accepting = False
        self._started = False
        self._closed = False
        self._log_at: dict[str, float] = {}
        self._socket = open_listening_socket(address)
        self._bound_name = self._socket.getsockname()
        self._socket_file = self._identify_socket_file()

    @property
    def local_address(self) -> str:
        return address_text(self._bound_name)

    @property
    def port(self) -> int:
        return int(self._bound_name[1]) if isinstance(self._bound_name, tuple) else UNIX_PORT

    @property
    def is_accepting(self) -> bool:
        return self._accepting

    def start(self) -> None:
        """Begin to accept, on the running loop."""
        logger.info("%s: listening on %s", self.name, self.local_address)
        self._started = True
        self._resume()

    def close(self) -> None:
        """Accept no more; open connections stay."""
        if self._closed:
            return
        self._suspend()
        self._closed = True
        if self._pause:
            self._pause.cancel()
        self._remove_socket_file()
        self._socket.close()
        if self._started:
            logger.info("%s: closing %s", self.name, self.local_address)

    def _accept_ready(self) -> None:
        for _ in range(ACCEPT_BURST):
            if self._is_full():
                if self._may_log("limit"):
                    logger.warning("%s: connection limit reached limit=%s", self.name, self._limit)
                self._suspend()
                return
            try:
                accepted, _ = self._socket.accept()
            except (BlockingIOError, InterruptedError):
                return
            except OSError as error:
                if error.errno in _ERRORS_OF_ONE_CONNECTION:
                    continue
                self._pause_accepting(error)
                return
            self._hand_over(accepted)

    def _hand_over(self, accepted: socket.socket) -> None:
        accepted.setblocking(False)
        if accepted.family != socket.AF_UNIX:
            with contextlib.suppress(OSError):  # the peer may be gone already
                accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                accepted.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        self.open_count += 1
        self.accepted_count += 1
        slot = _Slot(self._release)
        task = self._supervisor.spawn(self._connect(accepted, slot), f"{self.name} accept")
        task.add_done_callback(lambda _: None if slot.connected else _abandon(accepted, slot))

    async def _connect(self, accepted: socket.socket, slot: "_Slot") -> None:
        loop = asyncio.get_running_loop()
        try:
            await loop.connect_accepted_socket(lambda: self._protocol_factory(slot.release), accepted)
        except OSError as error:
            logger.debug("%s: connection lost while it was accepted reason=%s", self.name, error)
            return
        slot.connected = True

    def _release(self) -> None:
        self.open_count -= 1
        self._resume()

    def _pause_accepting(self, error: OSError) -> None:
        if self._may_log("error"):
            logger.warning("%s: paused accepting connections reason=%s", self.name, error.strerror)
        self._suspend()
        self._pause = asyncio.get_running_loop().call_later(self._pause_s, self._end_pause)

    def _end_pause(self) -> None:
        self._pause = None
        self._resume()

    def _resume(self) -> None:
        if not (self._accepting or self._closed or self._pause or self._is_full()) and self._started:
            asyncio.get_running_loop().add_reader(self._socket, self._accept_ready)
            self._accepting = True

    def _suspend(self) -> None:
        if self._accepting:
            asyncio.get_running_loop().remove_reader(self._socket)
            self._accepting = False

    def _is_full(self) -> bool:
        return 0 < self._limit <= self.open_count

    def _may_log(self, kind: str) -> bool:
        now = asyncio.get_running_loop().time()
        if now < self._log_at.get(kind, now):
            return False
        self._log_at[kind] = now + LOG_INTERVAL_S
        return True

    def _identify_socket_file(self) -> tuple[int, int] | None:
        if self._socket.family != socket.AF_UNIX or not os.path.lexists(self._bound_name):
            return None
        status = os.lstat(self._bound_name)
        return status.st_dev, status.st_ino

    def _remove_socket_file(self) -> None:
        # Another daemon may have taken the path since; its socket is not ours to remove.
        if self._socket_file and self._identify_socket_file() == self._socket_file:
            os.unlink(self._bound_name)


class _Slot:
    """The place one connection takes under the limit; given back once, however often it is told to."""

    def __init__(self, release: Callable[[], None]) -> None:
        self._release: Callable[[], None] | None = release
        self.connected = False

    def release(self) -> None:
        release, self._release = self._release, None
        if release:
            release()


def _abandon(accepted: socket.socket, slot: _Slot) -> None:
    accepted.close()
    slot.release()


def raise_descriptor_limit() -> int:
    """Lift the soft limit of open descriptors to the hard one and return it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MAX_DESCRIPTORS if hard == resource.RLIM_INFINITY else hard
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with contextlib.suppress(OSError, ValueError):  # sandboxes may forbid it: the soft limit then stands
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MAX_DESCRIPTORS if soft == resource.RLIM_INFINITY else soft


def connection_limit(option: int, descriptors: int) -> int:
    """How many connections may be open: `option` (0: as many as possible), less what storage needs."""
    available = max(1, descriptors - max(MIN_RESERVED_DESCRIPTORS, descriptors // 8))
    return min(option, available) if option > 0 else available
