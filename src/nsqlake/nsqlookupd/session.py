"""What one nsqd says over protocol V1, and what it is answered: bytes in, replies out."""

from collections.abc import Callable
from typing import NamedTuple

from nsqlake.nsqlookupd.errors import RegistrationLimitError
from nsqlake.nsqlookupd.peers import Peer
from nsqlake.nsqlookupd.registration_db import Registration, RegistrationDb
from nsqlake.wire.errors import ClientError, printable
from nsqlake.wire.lookup_commands import MAGIC_V1, OK, TOO_MANY_REGISTRATIONS, encode_reply
from nsqlake.wire.lookup_requests import RequestReader, decode_node, parse_names, split_line

__all__ = ["Change", "Session"]

OK_REPLY = encode_reply(OK)


class Change(NamedTuple):
    """What a command did to the database."""

    word: str
    registration: Registration


class Session:
    """Feed it, then `handle` until it waits for more; after a fatal error it is over and reads nothing.

    Who reads `changes`, `errors` and `command_count` empties them.
    """

    def __init__(
        self,
        remote_address: str,
        db: RegistrationDb,
        description: bytes,
        *,
        certified_addresses: frozenset[str] | None = None,
    ) -> None:
        """`description` answers IDENTIFY; only the certified addresses may be announced, if there are any."""
        self.remote_address, self._db, self._description = remote_address, db, description
        self._certified_addresses = certified_addresses
        self.peer: Peer | None = None  # once it is identified
        self.has_magic = False
        self.is_over = False
        self.is_waiting = True
        self.changes: list[Change] = []
        self.errors: list[ClientError] = []
        self.command_count = 0
        self._reader = RequestReader()
        self._awaits_body = False

    @property
    def pending_bytes(self) -> int:
        """Bytes of a command that is not whole yet, or not handled."""
        return self._reader.pending_bytes

    def feed(self, data: bytes) -> None:
        if not self.is_over:
            self._reader.feed(data)
            self.is_waiting = False

    def handle(self, now_ns: int, max_commands: int = 1_000) -> bytes:
        """The replies to at most so many commands."""
        replies: list[bytes] = []
        try:
            for _ in range(max_commands):
                reply = None if self.is_over else self._next(now_ns)
                if reply is None:
                    self.is_waiting = True
                    break
                replies.append(reply)
        except ClientError as error:
            replies.append(self._end(error))
        return b"".join(replies)

    def end_of_input(self) -> bytes:
        """What is left to say when the peer has sent its last byte."""
        if self.is_over:
            return b""
        if self._awaits_body:
            return self._end(self._reader.broken_body())
        self.is_over = self.is_waiting = True
        return b""

    def close(self) -> None:
        """The connection is gone, and so is the peer."""
        self.is_over = self.is_waiting = True
        peer, self.peer = self.peer, None
        if peer is not None:
            self._db.remove_peer(peer)

    def _end(self, error: ClientError) -> bytes:
        self.errors.append(error)
        self.is_over = self.is_waiting = True
        return encode_reply(error.payload)

    def _next(self, now_ns: int) -> bytes | None:
        """The reply to the next command, None when it is not whole yet."""
        if self._awaits_body:
            body = self._reader.take_body()
            return None if body is None else self._identify(body, now_ns)
        if not self.has_magic:
            magic = self._reader.take_magic()
            if magic is None:
                return None
            if magic != MAGIC_V1:
                raise ClientError("E_BAD_PROTOCOL")
            self.has_magic = True
        line = self._reader.take_line()
        if line is None:
            return None
        self.command_count += 1
        words = split_line(line)
        command = _COMMANDS.get(words[0])
        if command is None:
            raise ClientError("E_INVALID", f"invalid command {printable(words[0])}")
        return command(self, words, now_ns)

    # Commands -------------------------------------------------------------------------------------------

    def _ping(self, _words: list[bytes], now_ns: int) -> bytes:
        if self.peer is not None:
            self._db.ping(self.peer, now_ns)
        return OK_REPLY

    def _begin_identify(self, _words: list[bytes], _now_ns: int) -> bytes:
        if self.peer is not None:
            raise ClientError("E_INVALID", "cannot IDENTIFY again")
        self._awaits_body = True
        return b""  # the reply is that to its body

    def _identify(self, body: bytes, now_ns: int) -> bytes:
        node = decode_node(body)
        allowed = self._certified_addresses
        if allowed is not None and node.broadcast_address not in allowed:
            shown = printable(node.broadcast_address.encode())
            raise ClientError("E_BAD_BODY", f"IDENTIFY broadcast_address '{shown}' is not in the certificate")
        self._awaits_body = False
        self.peer = self._db.add_peer(self.remote_address, node, now_ns)
        self.changes.append(Change("REGISTER", Registration("client")))
        return encode_reply(self._description)

    def _register(self, words: list[bytes], _now_ns: int) -> bytes:
        peer = self._identified()
        topic, channel = parse_names(words)
        try:
            added = self._db.register(peer, topic, channel)
        except RegistrationLimitError as error:
            # Not fatal: what the peer, and everybody else, has registered already must stay findable.
            refusal = ClientError(TOO_MANY_REGISTRATIONS, f"REGISTER {error}", fatal=False)
            self.errors.append(refusal)
            return encode_reply(refusal.payload)
        self.changes += [Change("REGISTER", registration) for registration in added]
        return OK_REPLY

    def _unregister(self, words: list[bytes], _now_ns: int) -> bytes:
        removed = self._db.unregister(self._identified(), *parse_names(words))
        self.changes += [Change("UNREGISTER", registration) for registration in removed]
        return OK_REPLY

    def _identified(self) -> Peer:
        if self.peer is None:
            raise ClientError("E_INVALID", "client must IDENTIFY")
        return self.peer


_COMMANDS: dict[bytes, Callable[[Session, list[bytes], int], bytes]] = {
    b"PING": Session._ping,
    b"IDENTIFY": Session._begin_identify,
    b"REGISTER": Session._register,
    b"UNREGISTER": Session._unregister,
}
