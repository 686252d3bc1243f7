"""Publishing from a task with failover: at least once."""

from collections.abc import Sequence

from nsqlake.spark.encode import Mpub
from nsqlake.spark.errors import NodeError, WriteError
from nsqlake.spark.node_client import RefusedError, client_for
from nsqlake.spark.options import Access

__all__ = ["FailoverPublisher"]

_OF_THE_REQUEST = frozenset({400, 401, 403, 413})  # another node would say the same


class FailoverPublisher:
    """Sends to one node until that fails, then to the next. What was unanswered may be stored twice."""

    def __init__(self, nodes: Sequence[str], access: Access, first: int) -> None:
        self._nodes, self._access = list(nodes), access
        self._at = first % len(nodes)
        self.message_count = 0

    def publish(self, mpub: Mpub) -> None:
        """Raises WriteError when no node takes it."""
        failures: list[str] = []
        for _ in self._nodes:
            node = self._nodes[self._at]
            try:
                self._send(node, mpub)
            except NodeError as error:
                if isinstance(error, RefusedError) and error.status in _OF_THE_REQUEST:
                    raise WriteError(node, f"topic {mpub.topic}: {error.reason}") from error
                failures.append(str(error))
                self._at = (self._at + 1) % len(self._nodes)
                continue
            self.message_count += mpub.message_count
            return
        raise WriteError(",".join(self._nodes), f"topic {mpub.topic}: {'; '.join(failures)}")

    def _send(self, node: str, mpub: Mpub) -> None:
        client = client_for(node, self._access)
        if not mpub.defer_ms:
            client.request("POST", "/mpub", {"topic": mpub.topic, "binary": "true"}, mpub.body)
            return
        # NSQ has no MPUB with a delay.
        for body in mpub.bodies():
            client.request("POST", "/pub", {"topic": mpub.topic, "defer": mpub.defer_ms}, body)
