"""A limit on unfinished input of all connections together."""

__all__ = ["InputBudget"]

_SMALL_BYTES = 64 * 1024


class InputBudget:
    """Counts the bytes that connections hold while they wait for the rest of a command."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._held: dict[object, int] = {}
        self.total = 0

    def note(self, connection: object, held_bytes: int) -> bool:
        """Take over how much `connection` holds; False if it holds much and all together hold too much."""
        before = self._held.get(connection, 0)
        if held_bytes == before:
            return True
        if held_bytes:
            self._held[connection] = held_bytes
        else:
            del self._held[connection]
        self.total += held_bytes - before
        return self.total <= self._limit_bytes or held_bytes <= _SMALL_BYTES

    def release(self, connection: object) -> None:
        self.total -= self._held.pop(connection, 0)
