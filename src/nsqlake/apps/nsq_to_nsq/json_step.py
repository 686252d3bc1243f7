"""What becomes of a message under the flags `--require-json-*` and `--whitelist-json-field`."""

from collections.abc import Sequence
from typing import Final

from nsqlake.apps.nsq_to_nsq.go_json import decode_object, encode_object
from nsqlake.apps.tool_support.errors import ToolError

MISSING_FIELD = "ERROR: missing field to check required value"


class MissingFieldError(ToolError):
    """A value is required of a field that the message has not."""

    def __init__(self, field: str) -> None:
        super().__init__(MISSING_FIELD)
        self.field = field


class JsonStep:
    """Filter and projection; without any of the three flags messages pass as they are."""

    def __init__(self, required_field: str, required_value: str, passed_fields: Sequence[str]) -> None:
        self._field: Final = required_field
        self._value: Final = required_value
        self._number: Final = _number(required_value)
        self._passed: Final = tuple(passed_fields)
        self.is_needed: Final = bool(required_field or passed_fields)

    def apply(self, body: bytes) -> bytes | None:
        """The body to publish, None for a message to drop; NotJsonObjectError, MissingFieldError."""
        if not self.is_needed:
            return body
        message = decode_object(body)
        if self._field and not self._is_wanted(message):
            return None
        if not self._passed:
            return body
        return encode_object({key: message[key] for key in self._passed if key in message})

    def _is_wanted(self, message: dict[str, object]) -> bool:
        if self._field not in message:
            if self._value:
                raise MissingFieldError(self._field)
            return False
        return not self._value or self._has_value(message[self._field])

    def _has_value(self, found: object) -> bool:
        match found:
            case str():
                return found == self._value
            case float():
                return self._number is not None and found == self._number
        return False


def _number(text: str) -> float | None:
    if not text.isascii() or "_" in text or text != text.strip():
        return None
    try:
        return float(text)
    except ValueError:
        return None
