"""When a topic's next message goes to another file, and under which number."""

from enum import Enum
from typing import NamedTuple


class Reason(Enum):
    NEW_NAME = "new name"
    TOO_OLD = "too old"
    TOO_LARGE = "too large"


class FileState(NamedTuple):
    """An open file: its name without the revision, when it was opened, its size before compression."""

    name: str
    opened_ns: int
    size_bytes: int


class Rotation(NamedTuple):
    """`--rotate-interval` and `--rotate-size`; what is not positive is off."""

    interval_ns: int = 0
    size_bytes: int = 0

    @property
    def is_on(self) -> bool:
        return self.interval_ns > 0 or self.size_bytes > 0

    def reason(self, current: FileState, name: str, now_ns: int) -> Reason | None:
        """Why the file for `name` must be another than `current`, if it must."""
        if current.name != name:
            return Reason.NEW_NAME
        if 0 < self.interval_ns < now_ns - current.opened_ns:
            return Reason.TOO_OLD
        if self.is_too_large(current.size_bytes):
            return Reason.TOO_LARGE
        return None

    def is_too_large(self, size_bytes: int) -> bool:
        return 0 < self.size_bytes < size_bytes

    def size_text(self, size_bytes: int) -> str:
        return f"currently {size_bytes} bytes (> {self.size_bytes})"


class Revision(NamedTuple):
    """The number of the file that was opened last, and its name without the number."""

    name: str
    number: int

    def next_for(self, name: str) -> "Revision":
        return Revision(name, self.number + 1 if name == self.name else 0)


BEFORE_THE_FIRST = Revision("", -1)
