"""JSON answers as typed values, also in the wrapping of servers before 1.0.

Fields that we do not know are skipped, those that are missing have defaults, and a list that Go left empty
and so writes as `null` is `[]`.
"""

from typing import TYPE_CHECKING, Any, Optional, TypeVar

import msgspec
from msgspec import UNSET, UnsetType

from nsqlake.wire.errors import printable

T = TypeVar("T")
A = TypeVar("A", bound="Answer")

if TYPE_CHECKING:
    Listed = list[T]
else:
    Listed = Optional[list[T]]  # noqa: UP045 - only this form can be subscripted

MAX_SHOWN_CHARACTERS = 64


class Answer(msgspec.Struct, kw_only=True):
    """One whose lists are declared as `Listed`."""

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            if getattr(self, name) is None:
                setattr(self, name, [])


class _Wrapping(msgspec.Struct):
    status_code: int | UnsetType = UNSET
    status_txt: str = ""
    data: msgspec.Raw | UnsetType = UNSET


def decode_answer(body: bytes, answer_type: type[A], *, is_flat: bool = False) -> A:
    """ValueError with the reason; `is_flat` when the server said that it does not wrap its answers."""
    if not is_flat:
        body = _unwrapped(body)
    return _decode(body, answer_type)


def _unwrapped(body: bytes) -> bytes:
    wrapping = _decode(body, _Wrapping)
    if wrapping.status_code is UNSET or wrapping.data is UNSET:
        return body
    if wrapping.status_code != 200:
        status_txt = printable(wrapping.status_txt.encode("utf-8", "replace"), MAX_SHOWN_CHARACTERS)
        raise ValueError(f"status {wrapping.status_code} {status_txt}")
    return bytes(wrapping.data)


def _decode(body: bytes, value_type: type[T]) -> T:
    try:
        return msgspec.json.decode(body, type=value_type)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        shown = printable(body, MAX_SHOWN_CHARACTERS)
        raise ValueError(f"invalid answer ({_reason(error)}): {shown}") from error


def _reason(error: Any) -> str:
    return printable(str(error).encode("utf-8", "replace"), 2 * MAX_SHOWN_CHARACTERS)
