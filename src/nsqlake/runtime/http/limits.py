"""What one HTTP client may take: bytes and seconds."""

from dataclasses import dataclass

__all__ = ["HttpLimits"]


@dataclass(frozen=True)
class HttpLimits:
    """The seconds are rounded up to the server's next sweep."""

    header_bytes: int = 16_384
    headers: int = 100
    url_bytes: int = 8_192
    header_s: float = 10.0
    body_s: float = 30.0
    idle_s: float = 60.0
    unread_s: float = 30.0  # how long a client may leave its answers unread
