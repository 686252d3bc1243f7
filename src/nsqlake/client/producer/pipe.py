"""The publishes of one connection: written and queued in one step, settled in the order of the answers."""

from __future__ import annotations

import logging
from typing import Protocol

from nsqlake.client.connection import Connection
from nsqlake.client.errors import ConnectionLostError, NsqClientError, ServerError
from nsqlake.client.producer.publication import PendingPublishes, Publication
from nsqlake.wire.errors import printable
from nsqlake.wire.frames import OK

logger = logging.getLogger(__name__)


class PipeOwner(Protocol):
    """Who is told what became of the publishes."""

    def answered(self, publications: list[Publication]) -> None: ...
    def rejected(self, publication: Publication, error: ServerError) -> None: ...
    def pipe_lost(self, pipe: PublishPipe) -> None: ...


class PublishPipe:
    """Listens to one connection; a new connection gets a new pipe, which starts from nothing."""

    __slots__ = (
        "_owner",
        "address",
        "connection",
        "error",
        "has_answered",
        "is_lost",
        "is_refused",
        "pending",
    )

    def __init__(self, address: str, owner: PipeOwner) -> None:
        self.address = address
        self.pending = PendingPublishes()
        self.has_answered = False
        self.is_refused = False  # the last frame was a fatal error, so nsqd has read nothing behind it
        self.is_lost = False
        self.error: NsqClientError | None = None
        self._owner = owner

    def opened(self, connection: Connection) -> None:
        self.connection = connection

    def send(self, publication: Publication) -> None:
        # No await between the two: the order of the queue is the order on the wire.
        self.pending.append(publication)
        self.connection.write(publication.command)

    def responses_received(self, connection: Connection, payloads: list[bytes]) -> None:
        self.is_refused = False
        count = len(payloads)
        in_step = min(count, len(self.pending))
        if in_step < count or payloads.count(OK) != count:
            self._out_of_step(connection, payloads, in_step)
            return
        self.has_answered = True
        self._owner.answered(self.pending.take(count))

    def _out_of_step(self, connection: Connection, payloads: list[bytes], in_step: int) -> None:
        good = 0
        while good < in_step and payloads[good] == OK:
            good += 1
        self._owner.answered(self.pending.take(good))
        unexpected = printable(payloads[good])
        logger.error("NSQD(%s): unexpected response, closing text=%s", self.address, unexpected)
        # Whatever it answered, no later answer can be trusted to belong to the publish it would settle.
        connection.abort(ConnectionLostError(self.address, f"unexpected response {unexpected!r}"))

    def error_received(self, connection: Connection, error: ServerError) -> None:
        self.is_refused = error.fatal
        if len(self.pending):
            self._owner.rejected(self.pending.take(1)[0], error)

    def messages_received(self, connection: Connection, payloads: list[bytes]) -> None:
        connection.abort(ConnectionLostError(self.address, "nsqd delivers messages to a producer"))

    def heartbeat_received(self, connection: Connection) -> None:
        pass

    def connection_lost(self, connection: Connection, error: NsqClientError | None) -> None:
        self.is_lost, self.error = True, error
        self._owner.pipe_lost(self)
