"""The rules for topic and channel names."""

from __future__ import annotations

import re

MAX_NAME_LENGTH = 64  # NSQ protocol; the suffix counts
EPHEMERAL_SUFFIX = "#ephemeral"

_NAME = re.compile(rb"[.a-zA-Z0-9_-]+(?:#ephemeral)?")


def is_valid_name(raw: bytes) -> bool:
    """Whether `raw` may name a topic or a channel."""
    # fullmatch, because `$` would let a trailing newline through.
    return len(raw) <= MAX_NAME_LENGTH and _NAME.fullmatch(raw) is not None


def is_ephemeral(name: str) -> bool:
    return name.endswith(EPHEMERAL_SUFFIX)
