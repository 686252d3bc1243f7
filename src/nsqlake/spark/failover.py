"""Several nodes of which one is enough."""

import time
from collections.abc import Callable, Sequence
from typing import TypeVar

from nsqlake.spark.errors import NodeError, WriteError
from nsqlake.spark.node_client import FIRST_PAUSE_S, LONGEST_PAUSE_S

__all__ = ["Failover"]

T = TypeVar("T")


class Failover:
    """Stays with a node until that fails, then goes on with the next."""

    def __init__(
        self, nodes: Sequence[str], *, first: int, retries: int, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        self._nodes, self._at = list(nodes), first % len(nodes)
        self._retries, self._sleep = retries, sleep

    def run(self, call: Callable[[str], T]) -> T:
        """`call` for the first node for which it raises no NodeError.

        When it does for all, they are tried again after a pause, and in the end WriteError names them all.
        """
        pause_s = FIRST_PAUSE_S
        failures: dict[str, str] = {}
        for number in range(self._retries + 1):
            if number:
                self._sleep(pause_s)
                pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
            for _ in self._nodes:
                node = self._nodes[self._at]
                try:
                    return call(node)
                except NodeError as error:
                    failures[node] = error.reason
                self._at = (self._at + 1) % len(self._nodes)
        raise WriteError.of_nodes(failures)
