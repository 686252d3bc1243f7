"""Messages of a channel on their way into the folder: taken, kept alive, finished when Spark has them."""

import threading
from collections.abc import Iterable
from typing import Any

from nsqlake.client import BlockingConsumer, ConnectError, Message
from nsqlake.spark.consume.deliveries import Deliveries, Key
from nsqlake.spark.errors import NodeError
from nsqlake.spark.node_client import client_for
from nsqlake.spark.options import Access, ReadOptions

__all__ = ["DEFAULT_BATCH", "Intake"]

DEFAULT_BATCH = 2_500  # what nsqd has in flight on one connection unless told otherwise
KEPT_IDS = 200_000
STOP_LIMIT_S = 1.0


class Intake:
    """A consumer on a loop of its own. Messages stay in flight, touched in time, until `settle`."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        self._deliveries: Deliveries[Message] = Deliveries(KEPT_IDS)
        self._changed = threading.Condition()  # guards the deliveries, which two threads use
        self._consumer = BlockingConsumer(
            options.topics[0],
            options.channel,
            self._arrive,
            **_addresses(options.access),
            # Twice: the next batch comes while Spark works on this one.
            max_in_flight=2 * options.max_messages if options.max_messages else DEFAULT_BATCH,
            max_attempts=0,
            auto_touch=True,
            stop_timeout=STOP_LIMIT_S,
            user_agent="nsqlake.spark",
            **_credentials(options.access),
        )

    def start(self) -> None:
        try:
            self._consumer.start(wait=True)
        except ConnectError as error:
            raise NodeError(
                ",".join(self._options.access.nsqd or self._options.access.lookupd), str(error)
            ) from error

    def remember(self, number: int, keys: Iterable[Key]) -> None:
        """Spark has this batch from before; call it before `start`."""
        self._deliveries.remember(number, keys)

    async def _arrive(self, message: Message) -> None:
        message.disable_auto_response()
        with self._changed:
            is_wanted = self._deliveries.arrive(message)
            if is_wanted:
                self._changed.notify()
        if not is_wanted:
            message.finish()

    def next_batch(self, number: int, most: int, max_bytes: int | None, *, wait_s: float) -> list[Message]:
        """What has come, or what comes first in `wait_s`."""
        with self._changed:
            self._changed.wait_for(lambda: self._deliveries.waiting, wait_s)
            return self._deliveries.next_batch(number, most, max_bytes)

    def settle(self, last: int) -> list[int]:
        """Finish the messages of all batches up to `last`; returns batches that need not be kept any more."""
        with self._changed:
            done, dropped = self._deliveries.settle(last), self._deliveries.forget()
        for message in done:
            message.finish()
        if done:
            self._flush()
        return dropped

    def _flush(self) -> None:
        # Spark may end this process next, and the consumer writes the FINs of a turn of its loop in the next.
        self._consumer.stats()
        self._consumer.stats()

    def close(self) -> None:
        """Give back what Spark has not got."""
        self._consumer.pause()
        with self._changed:
            unfinished = self._deliveries.unfinished()
        for message in unfinished:
            message.requeue(0, backoff=False)
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
    host = node.rpartition("://")[2].rpartition(":")[0]
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
