"""Who a log is, kept beside its segments so that no single damaged header loses it."""

import os
import struct
from dataclasses import dataclass

from nsqlake.topiclog.atomic_file import read_atomic, write_atomic
from nsqlake.topiclog.files import Files

__all__ = ["IDENTITY_NAME", "Identity", "read_identity", "write_identity"]

IDENTITY_NAME = "identity"
_FIELDS = struct.Struct(">16sIIQ")


@dataclass(frozen=True, slots=True)
class Identity:
    """`floor` is durable before any offset at or above it is handed out in `epoch`."""

    uuid: bytes
    salt: int
    epoch: int
    floor: int


def read_identity(files: Files, directory: str) -> Identity | None:
    payload = read_atomic(files, os.path.join(directory, IDENTITY_NAME))
    if payload is None or len(payload) != _FIELDS.size:
        return None
    return Identity(*_FIELDS.unpack(payload))


def write_identity(files: Files, directory: str, identity: Identity) -> None:
    payload = _FIELDS.pack(identity.uuid, identity.salt, identity.epoch, identity.floor)
    write_atomic(files, os.path.join(directory, IDENTITY_NAME), payload)
