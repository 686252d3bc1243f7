"""What a topic holds, read back from nsqd's log without anything of the source under test."""

from collections.abc import Iterable, Iterator

import httpx

from nsqlake.topiclog.block import BlockFault, block_size, decode_block

MAX_BYTES = 8 * 1024 * 1024


def read_topic(nodes: Iterable[str], topic: str) -> list[bytes]:
    """All that is visible, node after node, in the order of the log; nothing from a node without it."""
    return [body for node in nodes for body in _read_node(node, topic)]


def _read_node(node: str, topic: str) -> Iterator[bytes]:
    with httpx.Client(base_url=f"http://{node}", timeout=30) as client:
        bounds = client.get("/log/offsets", params={"topic": topic})
        if bounds.status_code == 404:
            return
        offset = bounds.json()["first"]
        while True:
            answer = client.get(
                "/log/read", params={"topic": topic, "offset": offset, "max_bytes": MAX_BYTES}
            )
            assert answer.status_code == 200, answer.text
            if not answer.content:
                return
            yield from _bodies(answer.content, int(answer.headers["x-nsq-log-salt"]))
            offset = int(answer.headers["x-nsq-next-offset"])


def _bodies(data: bytes, salt: int) -> Iterator[bytes]:
    at = 0
    while at < len(data):
        span = decode_block(data, at, salt)
        assert not isinstance(span, BlockFault), span
        yield from (span.body(i) for i in range(span.end - span.base))
        at += block_size(data, at)
