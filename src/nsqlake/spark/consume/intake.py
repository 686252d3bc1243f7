"""Messages of a channel on their way into the folder: taken, kept alive, finished when Spark has them."""

import threading
from collections import deque
from collections.abc import Sequence
from typing import Any

from nsqlake.client import BlockingConsumer, Message
from nsqlake.spark.errors import NodeError
from nsqlake.spark.node_client import client_for
from nsqlake.spark.options import Access, ReadOptions

__all__ = ["Intake"]

DEFAULT_IN_FLIGHT = 2_500  # what nsqd allows one connection unless told otherwise
START_LIMIT_S = 10.0


class Intake:
    """A consumer on a loop of its own. Messages stay in flight, touched in time, until `finish`."""

    def __init__(self, options: ReadOptions, known_ids: set[str]) -> None:
        self._known = known_ids
        self._arrived: deque[Message] = deque()
        self._came = threading.Event()
        self._consumer = BlockingConsumer(
            options.topics[0],
            options.channel,
            self._take,
            **_addresses(options.access),
            max_in_flight=options.max_messages or DEFAULT_IN_FLIGHT,
            max_attempts=0,
            auto_touch=True,
            user_agent="nsqlake.spark",
            **_credentials(options.access),
        )
        self._consumer.start()

    async def _take(self, message: Message) -> None:
        message.disable_auto_response()
        if message.id.decode() in self._known:
            message.finish()  # Spark has it from before a restart
            return
        self._arrived.append(message)
        self._came.set()

    def wait(self, limit_s: float) -> None:
        """Until a message is there, or `limit_s`."""
        self._came.wait(limit_s)

    def take(self, most: int, max_bytes: int | None) -> list[Message]:
        taken: list[Message] = []
        nbytes = 0
        while self._arrived and len(taken) < most and (max_bytes is None or nbytes < max_bytes):
            message = self._arrived.popleft()
            if not message.is_cancelled:  # else nsqd delivers it again anyway
                taken.append(message)
                nbytes += len(message.body)
        if not self._arrived:
            self._came.clear()
        return taken

    def finish(self, messages: Sequence[Message]) -> None:
        for message in messages:
            message.finish()

    def close(self) -> None:
        self._consumer.stop()


def _addresses(access: Access) -> dict[str, Any]:
    if access.lookupd:
        return {"lookupd_http_addresses": list(access.lookupd)}
    return {"nsqd_tcp_addresses": [_tcp_address(node, access) for node in access.nsqd]}


def _tcp_address(node: str, access: Access) -> str:
    """Where an nsqd that is named by its HTTP address takes consumers."""
    info = client_for(node, access).get_json("/info")
    port = info.get("tcp_port") if isinstance(info, dict) else None
    if not isinstance(port, int) or port <= 0:
        raise NodeError(node, "does not tell its TCP port by /info")
    host = node.rpartition("://")[2].rpartition(":")[0] or node
    return f"{host}:{port}"


def _credentials(access: Access) -> dict[str, Any]:
    given: dict[str, Any] = {}
    if access.secret:
        given["auth_secret"] = access.secret
    if access.root_ca_file or access.cert_file or any(node.startswith("https") for node in access.nsqd):
        given |= {"tls_v1": True, "tls_insecure_skip_verify": not access.verify}
        given |= {"tls_root_ca_file": access.root_ca_file} if access.root_ca_file else {}
        given |= {"tls_cert": access.cert_file, "tls_key": access.key_file} if access.cert_file else {}
    return given
