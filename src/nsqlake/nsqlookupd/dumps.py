"""`/debug`: the whole database as JSON.

With thousands of topics on many nodes that is hundreds of megabytes. It is made in slices, and beyond a
megabyte in a file without a name, from which it is sent.
"""

import asyncio
import os
import tempfile
from collections.abc import Iterator
from threading import Thread
from typing import IO

from nsqlake.nsqlookupd.peers import Peer
from nsqlake.nsqlookupd.registration_db import Holders, RegistrationDb
from nsqlake.runtime.http import FileResponse, HttpError, Response, encode_json
from nsqlake.runtime.http.response import JSON_TYPE
from nsqlake.runtime.pace import run_in_slices

__all__ = ["Dumps"]

NEVER_NS = -6795364578871345152  # what Go makes of its time zero
PIECE_BYTES = 256 * 1024
MAX_BYTES_IN_MEMORY = 1024 * 1024
MAX_BYTES = 1024 * 1024 * 1024
MAX_FILES = 4


class Dumps:
    """Makes one at a time; a few may wait to be read by those who asked."""

    def __init__(self, db: RegistrationDb) -> None:
        self._db = db
        self._lock = asyncio.Lock()
        self._file_count = 0

    async def take(self, topic: str | None = None) -> Response:
        """Of one topic, or of everything. HttpError 503 when it is too much or too many ask."""
        async with self._lock:
            if self._file_count >= MAX_FILES:
                raise HttpError(503, "BUSY", reason="too many of these answers are still being read")
            dump = _Dump(self._db, topic)
            try:
                await run_in_slices(dump.make())
                return self._respond(dump)
            except OSError as error:
                dump.close()
                raise HttpError(503, "STORAGE_FAILED", reason=error.strerror or "") from error
            except BaseException:
                dump.close()
                raise

    def _respond(self, dump: "_Dump") -> Response:
        if dump.file is None:
            return Response(200, b"".join(dump.pieces), JSON_TYPE)
        dump.spill()
        self._file_count += 1

        def done() -> None:
            self._file_count -= 1
            # Not on the loop: it takes the system long to free hundreds of megabytes.
            Thread(target=dump.close, name="close dump").start()

        return FileResponse([(dump.file.fileno(), 0, dump.written_bytes)], JSON_TYPE, on_done=done)


class _Dump:
    def __init__(self, db: RegistrationDb, topic: str | None) -> None:
        self._db, self._topic = db, topic
        self.pieces: list[bytes] = [b"{"]
        self.file: IO[bytes] | None = None
        self.written_bytes = 0
        self._held_bytes = 0
        self._peers: dict[Peer, bytes] = {}
        self._lists: dict[tuple[Peer, ...], bytes] = {}

    def make(self) -> Iterator[None]:
        separator = b""
        for registration, holders in self._db.registrations(self._topic):
            if holders.peers:
                key = encode_json(":".join(registration))
                self._add(b"%b%b:%b" % (separator, key, self._encode(holders)))
                separator = b","
            yield
        self.pieces.append(b"}")

    def spill(self) -> None:
        """Write what is held to the file."""
        if self.file is None:
            self.file = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115 - closed when it was sent
        piece = memoryview(b"".join(self.pieces))
        self.pieces, self._held_bytes = [], 0
        while piece:
            written = os.write(self.file.fileno(), piece)
            self.written_bytes += written
            piece = piece[written:]

    def close(self) -> None:
        if self.file is not None:
            self.file.close()

    def _add(self, piece: bytes) -> None:
        self.pieces.append(piece)
        self._held_bytes += len(piece)
        if self._held_bytes > (PIECE_BYTES if self.file else MAX_BYTES_IN_MEMORY):
            self.spill()
            if self.written_bytes > MAX_BYTES:
                raise HttpError(503, "TOO_LARGE", reason="ask for one topic")

    def _encode(self, holders: Holders) -> bytes:
        """Most topics and channels have the same peers: their list is encoded once."""
        if holders.tombstones:
            entries = [self._encode_peer(peer, holders.tombstones.get(peer.slot)) for peer in holders.peers]
            return b"[%b]" % b",".join(entries)
        encoded = self._lists.get(holders.peers)
        if encoded is None:
            encoded = b"[%b]" % b",".join(map(self._encode_peer, holders.peers))
            if len(encoded) * len(self._lists) < MAX_BYTES_IN_MEMORY:
                self._lists[holders.peers] = encoded
        return encoded

    def _encode_peer(self, peer: Peer, tombstoned_at_ns: int | None = None) -> bytes:
        encoded = self._peers.get(peer) if tombstoned_at_ns is None else None
        if encoded is None:
            encoded = encode_json(_describe(peer, tombstoned_at_ns))
            if tombstoned_at_ns is None:
                self._peers[peer] = encoded
        return encoded


def _describe(peer: Peer, tombstoned_at_ns: int | None) -> dict[str, object]:
    node = peer.node
    return {
        "broadcast_address": node.broadcast_address,
        "hostname": node.hostname,
        "http_port": node.http_port,
        "id": peer.id,
        "last_update": peer.last_update_ns,
        "tcp_port": node.tcp_port,
        "tombstoned": tombstoned_at_ns is not None,
        "tombstoned_at": NEVER_NS if tombstoned_at_ns is None else tombstoned_at_ns,
        "topology_region": node.topology_region,
        "topology_zone": node.topology_zone,
        "version": node.version,
    }
