"""Cutting a stream of bytes into records at a delimiter."""

from nsqlake.apps.tool_support.errors import ToolError

MAX_RECORD_BYTES = 2**31 - 1  # the size field of PUB


class RecordTooLongError(ToolError):
    """A record that no nsqd can take, because its size does not fit the command."""

    def __init__(self, limit_bytes: int) -> None:
        super().__init__(f"a record is longer than {limit_bytes} bytes")
        self.limit_bytes = limit_bytes


class RecordSplitter:
    """Bytes in, records out, empty ones included; what follows the last delimiter comes with `end`."""

    def __init__(self, delimiter: bytes, limit_bytes: int = MAX_RECORD_BYTES) -> None:
        self._delimiter, self._limit_bytes = delimiter, limit_bytes
        self._pieces: list[bytes] = []
        self._held_bytes = 0

    def feed(self, data: bytes) -> list[bytes]:
        records = data.split(self._delimiter)
        rest = records.pop()
        if records:
            records[0] = self._take() + records[0]
        self._pieces.append(rest)
        self._held_bytes += len(rest)
        if self._held_bytes > self._limit_bytes:
            raise RecordTooLongError(self._limit_bytes)
        return records

    def end(self) -> bytes:
        """The last record, which no delimiter follows; empty when there is none."""
        return self._take()

    def _take(self) -> bytes:
        whole = b"".join(self._pieces)
        self._pieces.clear()
        self._held_bytes = 0
        return whole
