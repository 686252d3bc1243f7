"""A `Files` on the real disk whose calls fail when a test says so."""

import errno
import os
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from nsqlake.topiclog.files import OS_FILES, Buffer, Files

FOREVER = 1 << 60


class FaultyFiles:
    """Counts every call, and lets the n-th of a kind fail or write only a part.

    `fail("fdatasync", errno.EIO)` makes the next fdatasync fail; `at=3` the third from now; `times=FOREVER`
    all from then on; `path=".log"` only calls on paths that contain it.
    """

    def __init__(self, inner: Files = OS_FILES) -> None:
        self._inner = inner
        self._faults: list[_Fault] = []
        self._free_bytes: int | None = None
        self._total_bytes: int | None = None
        self._paths: dict[int, str] = {}
        self.calls: Counter[str] = Counter()

    def fail(self, call: str, code: int, *, at: int = 1, times: int = 1, path: str = "") -> None:
        self._faults.append(_Fault(call, code, at, times, path))

    def cut_write(self, call: str, nbytes: int, *, at: int = 1) -> None:
        """Let the n-th `write` or `writev` take only `nbytes`."""
        self._faults.append(_Fault(call, 0, at, 1, "", nbytes))

    def set_space(self, *, free: int | None = None, total: int | None = None) -> None:
        self._free_bytes, self._total_bytes = free, total

    def heal(self) -> None:
        self._faults.clear()

    @property
    def open_descriptors(self) -> int:
        return len(self._paths)

    def open(self, path: str, flags: int, mode: int = 0o600) -> int:
        self._strike("open", path)
        fd = self._inner.open(path, flags, mode)
        self._paths[fd] = path
        return fd

    def close(self, fd: int) -> None:
        del self._paths[fd]
        self._inner.close(fd)
        self._strike("close", "")

    def write(self, fd: int, data: Buffer) -> int:
        allowed = self._strike("write", self._paths[fd])
        return self._inner.write(fd, data if allowed is None else data[:allowed])

    def writev(self, fd: int, buffers: Sequence[Buffer]) -> int:
        allowed = self._strike("writev", self._paths[fd])
        if allowed is None:
            return self._inner.writev(fd, buffers)
        return self._inner.write(fd, b"".join(buffers)[:allowed])

    def free_bytes(self, path: str) -> int:
        self._strike("free_bytes", path)
        return self._inner.free_bytes(path) if self._free_bytes is None else self._free_bytes

    def total_bytes(self, path: str) -> int:
        self._strike("total_bytes", path)
        return self._inner.total_bytes(path) if self._total_bytes is None else self._total_bytes

    def __getattr__(self, name: str) -> Callable[..., Any]:
        inner = getattr(self._inner, name)

        def call(subject: int | str, *rest: Any) -> Any:
            self._strike(name, self._paths[subject] if isinstance(subject, int) else subject)
            return inner(subject, *rest)

        return call

    def _strike(self, call: str, path: str) -> int | None:
        self.calls[call] += 1
        matching = [fault for fault in self._faults if fault.call == call and fault.path in path]
        due = [fault for fault in matching if fault.is_due()]
        if not due:
            return None
        if due[0].allowed is None:
            raise OSError(due[0].code, os.strerror(due[0].code), path)
        return due[0].allowed


class _Fault:
    def __init__(
        self, call: str, code: int, at: int, times: int, path: str, allowed: int | None = None
    ) -> None:
        assert code in errno.errorcode or allowed is not None
        self.call, self.code, self.path, self.allowed = call, code, path, allowed
        self._first, self._last, self._seen = at, at + times - 1, 0

    def is_due(self) -> bool:
        self._seen += 1
        return self._first <= self._seen <= self._last
