"""`--header='Name: value'`."""

import re
from collections.abc import Sequence

from nsqlake.runtime.errors import ConfigurationError

# RFC 9110: a name is a token; a value has no control characters.
_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUE = re.compile(r"[^\x00-\x08\x0a-\x1f\x7f]+")


def parse_headers(texts: Sequence[str]) -> dict[str, str]:
    """The last of a name wins, in whatever case; ConfigurationError for what could not be sent."""
    headers: dict[str, str] = {}
    for text in texts:
        name, colon, value = text.partition(":")
        name, value = name.strip(), value.strip()
        if not colon or not name or not value:
            raise ConfigurationError("header", text, "--header value format should be 'key: value'")
        if not _NAME.fullmatch(name) or not _VALUE.fullmatch(value):
            raise ConfigurationError(
                "header", text, f"--header {name!r} has a character that HTTP does not allow"
            )
        headers[name.lower()] = value
    return headers
