"""The handshake with an nsqd as a state machine: frames in, what to do next out.

IDENTIFY, then TLS, then a codec, each confirmed by an OK through the new layer, then AUTH, then SUB: what is
not asked for, not granted or not required is left out. nsqd's heartbeats may come in between. They are
answered, but never while nsqd may be about to change layers: the wrong one would read the answer.
"""

from __future__ import annotations

from enum import Enum
from typing import Final, NamedTuple

from nsqlake.client.config import ClientConfig
from nsqlake.client.errors import ConnectError, HandshakeRefusedError, InvalidArgumentError, ServerError
from nsqlake.client.identify import decode_auth_answer, decode_identify_answer, identify_fields
from nsqlake.client.server_description import ServerDescription
from nsqlake.wire import commands
from nsqlake.wire.errors import ClientError, printable
from nsqlake.wire.frames import HEARTBEAT, OK, FrameType

SHOWN_CHARACTERS: Final = 64


class Step(Enum):
    """What we wait for; the value is how errors call it."""

    IDENTIFY = "IDENTIFY"
    TLS = "the OK after TLS"
    COMPRESSION = "the OK after compression"
    AUTH = "AUTH"
    SUBSCRIBE = "SUB"
    READY = "ready"


class Upgrade(Enum):
    TLS = "tls"
    SNAPPY = "snappy"
    DEFLATE = "deflate"


class Next(NamedTuple):
    """Switch layers, then send; both may be nothing."""

    upgrade: Upgrade | None = None
    data: bytes = b""


class Handshake:
    """One handshake; `warnings` are for the log. ConnectError from `receive` means: close."""

    def __init__(
        self, address: str, config: ClientConfig, subscription: tuple[str, str] | None = None
    ) -> None:
        self._address = address
        self._config = config
        self._sub = _sub_command(config, subscription) if subscription else b""
        self._owes_nop = False
        self.step = Step.IDENTIFY
        self.server = ServerDescription()
        self.warnings: list[str] = []

    @property
    def is_done(self) -> bool:
        return self.step is Step.READY

    def begin(self) -> bytes:
        return commands.MAGIC_V2 + commands.identify(identify_fields(self._config))

    def receive(self, kind: FrameType, payload: bytes) -> Next:
        if kind is FrameType.ERROR:
            error = ServerError.decode(self._address, payload)
            raise HandshakeRefusedError(self._address, error.code, error.text)
        if kind is FrameType.MESSAGE:
            raise ConnectError(self._address, f"a message instead of {self.step.value}")
        if payload == HEARTBEAT:
            return self._heartbeat()
        if self.step is Step.IDENTIFY:
            return self._identified(payload)
        if self.step is Step.AUTH:
            return self._authorised(payload)
        if payload != OK:
            shown = printable(payload, SHOWN_CHARACTERS)
            raise ConnectError(self._address, f"{shown!r} instead of {self.step.value}")
        return self._confirmed()

    def _heartbeat(self) -> Next:
        if self.step in (Step.AUTH, Step.SUBSCRIBE):
            return Next(data=commands.nop())
        self._owes_nop = True
        return Next()

    def _identified(self, payload: bytes) -> Next:
        self.server = decode_identify_answer(self._address, payload)
        self._check_grants()
        if self.server.tls:
            self.step = Step.TLS
            return Next(Upgrade.TLS)
        return self._compress()

    def _check_grants(self) -> None:
        config, server = self._config, self.server
        for name, asked, granted in (
            ("TLS", config.tls_v1, server.tls),
            ("snappy", config.snappy, server.snappy),
            ("deflate", config.deflate, server.deflate),
        ):
            if granted and not asked:
                raise ConnectError(self._address, f"{name} granted, but not asked for")
            if asked and not granted:
                self.warnings.append(f"{name} was asked for and not granted")
        if config.tls_v1 and not server.tls and config.tls_required:
            text = "asked for TLS, which nsqd does not offer"
            raise HandshakeRefusedError(self._address, "TLS_NOT_GRANTED", text, permanent=True)

    def _confirmed(self) -> Next:
        """An OK where one was due."""
        if self.step is Step.TLS:
            return self._compress()
        if self.step is Step.COMPRESSION:
            return self._authorise()
        self.step = Step.READY
        return Next()

    def _compress(self) -> Next:
        if not (self.server.snappy or self.server.deflate):
            return self._authorise()
        self.step = Step.COMPRESSION
        return Next(Upgrade.SNAPPY if self.server.snappy else Upgrade.DEFLATE)

    def _authorise(self) -> Next:
        """No layer changes from here on: what is owed may be sent."""
        owed, self._owes_nop = commands.nop() if self._owes_nop else b"", False
        if not self.server.auth_required:
            return self._subscribe(owed)
        if not self._config.auth_secret:
            text = "nsqd requires authentication and no auth_secret is set"
            raise HandshakeRefusedError(self._address, "AUTH_SECRET_MISSING", text, permanent=True)
        self.step = Step.AUTH
        return Next(data=owed + commands.auth(self._config.auth_secret.encode()))

    def _authorised(self, payload: bytes) -> Next:
        self.server = decode_auth_answer(self._address, payload, self.server)
        return self._subscribe(b"")

    def _subscribe(self, owed: bytes) -> Next:
        self.step = Step.SUBSCRIBE if self._sub else Step.READY
        return Next(data=owed + self._sub)


def _sub_command(config: ClientConfig, subscription: tuple[str, str]) -> bytes:
    if config.heartbeat_interval < 0:
        raise InvalidArgumentError(
            "heartbeat_interval", config.heartbeat_interval, "consumers need heartbeats"
        )
    try:
        return commands.sub(*subscription)
    except ClientError as error:
        raise InvalidArgumentError("subscription", subscription, error.description) from None
