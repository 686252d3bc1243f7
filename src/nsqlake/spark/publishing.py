"""Publishing from a task with failover: at least once."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from nsqlake.spark.encode import Mpub
from nsqlake.spark.errors import RefusedError, WriteError
from nsqlake.spark.failover import Failover
from nsqlake.spark.node_client import client_for
from nsqlake.spark.options import Access

__all__ = ["FailoverPublisher", "refusal_of"]

_OF_THE_REQUEST = frozenset({400, 401, 403, 413})  # another node would say the same


class FailoverPublisher:
    """What was sent and not answered is sent to another node, and may be stored twice."""

    def __init__(
        self, nodes: Sequence[str], access: Access, *, first: int, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        self._failover = Failover(nodes, first=first, retries=access.retries, sleep=sleep)
        self._access = replace(access, retries=0)
        self.message_count = 0

    def publish(self, mpub: Mpub) -> None:
        """Raises WriteError when no node takes it."""
        if not mpub.defer_ms:
            self._post("/mpub", {"topic": mpub.topic, "binary": "true"}, mpub.body)
            self.message_count += mpub.message_count
            return
        for message in mpub.messages():  # NSQ has no MPUB with a delay
            self._post("/pub", {"topic": mpub.topic, "defer": mpub.defer_ms}, message)
            self.message_count += 1

    def _post(self, path: str, params: Mapping[str, object], body: memoryview) -> None:
        def send(node: str) -> None:
            try:
                client_for(node, self._access).request("POST", path, params, body)
            except RefusedError as error:
                if error.status in _OF_THE_REQUEST:
                    raise refusal_of(error, str(params["topic"])) from error
                raise

        self._failover.run(send)


def refusal_of(error: RefusedError, topic: str) -> WriteError:
    """That messages were refused for what they are."""
    reason = f"topic {topic}: {error.reason}"
    if error.status == 413:
        reason += (
            " (a message is larger than its --max-msg-size, or maxRequestBytes than its --max-body-size)"
        )
    return WriteError(error.node, reason)
