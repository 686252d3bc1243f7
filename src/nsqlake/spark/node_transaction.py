"""A transaction on one node, as tasks and the driver use it."""

import json
from collections.abc import Sequence
from dataclasses import asdict

from nsqlake.spark.decisions import StagedPart
from nsqlake.spark.encode import Mpub
from nsqlake.spark.errors import RefusedError, WriteError
from nsqlake.spark.node_client import client_for
from nsqlake.spark.options import Access
from nsqlake.spark.publishing import refusal_of

__all__ = ["NodeTransaction"]

_AGAIN = "start the query once with delivery=at-least-once, which publishes the batch again"


class NodeTransaction:
    """Raises NodeError when the node does not answer, WriteError when it does and cannot go on."""

    def __init__(self, node: str, txn: str, access: Access) -> None:
        self.node, self.txn = node, txn
        self._client = client_for(node, access)

    def stage(self, attempt: StagedPart, mpub: Mpub) -> None:
        """Keep one request; what a failed one of this attempt left does not count twice."""
        params = {
            "txn": self.txn,
            "part": attempt.part,
            "attempt": attempt.attempt,
            "number": attempt.records,
            "topic": mpub.topic,
            "defer_ms": mpub.defer_ms,
        }
        try:
            self._client.post_json("/txn/stage", params, mpub.body)
        except RefusedError as error:
            if error.status == 404:
                raise WriteError(self.node, "knows no transactions: use delivery=at-least-once") from error
            raise refusal_of(error, mpub.topic) from error

    def require(self, parts: Sequence[StagedPart]) -> None:
        """That the node holds them, and has not published anything of this transaction."""
        found = self._client.get_json("/txn", {"txn": self.txn})
        if found["state"] in ("committed", "done"):
            reason = f"has published {self.txn} or a later batch, of which this checkpoint does not know"
            raise WriteError(self.node, f"{reason}: was it set back? Use a new one, or {_AGAIN}")
        there = {
            (each["part"], each["attempt"], each["records"], each["messages"]) for each in found["parts"]
        }
        for part in parts:
            if (part.part, part.attempt, part.records, part.messages) not in there:
                raise WriteError(self.node, f"has lost what {self.txn} staged: run the batch again")

    def commit(self, parts: Sequence[StagedPart]) -> None:
        """Publish them; nothing is done when they are published already."""
        chosen = [{key: value for key, value in asdict(part).items() if key != "node"} for part in parts]
        body = json.dumps({"parts": chosen}).encode()
        try:
            answer = self._client.post_json("/txn/commit", {"txn": self.txn}, body)
        except RefusedError as error:
            if error.code in ("TXN_NOT_FOUND", "TXN_INCOMPLETE"):
                reason = f"has lost what {self.txn} staged (see its --txn-timeout): {_AGAIN}"
                raise WriteError(self.node, reason) from error
            raise WriteError(self.node, f"{self.txn}: {error.reason}") from error
        if answer.get("lost"):
            reason = f"lost {answer['lost']} messages of {self.txn} to a damaged disk; its log says which"
            raise WriteError(self.node, reason)

    def abort(self) -> None:
        """Drop what is staged."""
        self._client.post_json("/txn/abort", {"txn": self.txn})
