"""Which nodes there are, and asking all of them at once."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from nsqlake.spark.errors import NodeError
from nsqlake.spark.node_client import client_for
from nsqlake.spark.options import Access

__all__ = ["ask_each", "find_nodes"]

MAX_THREADS = 16

T = TypeVar("T")


def ask_each(nodes: Sequence[str], question: Callable[[str], T]) -> dict[str, T]:
    """What each node answers. Every node is asked by one thread; the first that fails raises its error."""
    if len(nodes) < 2:
        return {node: question(node) for node in nodes}
    with ThreadPoolExecutor(min(MAX_THREADS, len(nodes))) as pool:
        return dict(zip(nodes, pool.map(question, nodes), strict=True))


def find_nodes(access: Access) -> list[str]:
    """The nodes of a cluster by their HTTP addresses. NodeError when no nsqlookupd answers."""
    if access.nsqd:
        return list(access.nsqd)
    answers = ask_each(access.lookupd, lambda address: _ask_lookupd(address, access))
    failures = [answer for answer in answers.values() if isinstance(answer, NodeError)]
    if len(failures) == len(answers):
        raise failures[0]
    nodes = sorted(
        {node for answer in answers.values() if not isinstance(answer, NodeError) for node in answer}
    )
    if not nodes:
        raise NodeError(",".join(access.lookupd), "knows no nsqd")
    return nodes


def _ask_lookupd(address: str, access: Access) -> list[str] | NodeError:
    try:
        answer: Any = client_for(address, access).get_json("/nodes")
        return [_node_address(producer) for producer in answer["producers"]]
    except NodeError as error:
        return error
    except (KeyError, TypeError, ValueError):
        return NodeError(address, "gave an answer that is not an nsqlookupd's")


def _node_address(producer: dict[str, Any]) -> str:
    host, port = str(producer["broadcast_address"]), int(producer["http_port"])
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
