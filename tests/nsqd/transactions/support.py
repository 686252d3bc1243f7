"""Transactions by their shortest words."""

from collections.abc import Iterable

from nsqlake.nsqd.replay import log_blocks, peek_at_topic
from nsqlake.nsqd.transactions.store import ChosenPart
from nsqlake.nsqd.transactions.transactions import Outcome
from nsqlake.nsqd.transactions.txn_id import TxnId
from nsqlake.topiclog.block import BlockFault, block_size, decode_block
from nsqlake.wire.command_reader import Messages
from tests.nsqd.broker_on_disk import BrokerOnDisk
from tests.topiclog.support import framed

TOPIC = "orders"


def messages_of(*bodies: bytes) -> Messages:
    made = framed(bodies)
    return Messages(b"MPUB", made["records"], made["count"], made.get("record_size", 0), made.get("starts"))


def named(txn: str) -> TxnId:
    parsed = TxnId.parse(txn)
    assert parsed is not None
    return parsed


def stage(
    disk: BrokerOnDisk,
    txn: str,
    *bodies: bytes,
    part: int = 0,
    attempt: int = 0,
    number: int | None = None,
    topic: str = TOPIC,
    defer_ms: int = 0,
    owner: str = "",
) -> bool:
    """Behind what the attempt has staged, unless `number` says otherwise."""
    known = disk.broker.transactions.open.get(named(txn))
    if number is None:
        number = len(known.parts[part, attempt].records) if known and (part, attempt) in known.parts else 0
    return disk.broker.transactions.stage(
        named(txn),
        (part, attempt),
        number,
        topic=topic,
        messages=messages_of(*bodies),
        defer_ms=defer_ms,
        owner=owner,
    )


def chosen(disk: BrokerOnDisk, txn: str, *keys: tuple[int, int]) -> list[ChosenPart]:
    """These attempts, or all there are, with what they have staged."""
    known = disk.broker.transactions.open.get(named(txn))
    parts = {} if known is None else known.parts
    return [
        ChosenPart(*key, len(parts[key].records), parts[key].message_count) for key in keys or sorted(parts)
    ]


def commit(disk: BrokerOnDisk, txn: str, *keys: tuple[int, int], owner: str = "") -> Outcome:
    outcome = disk.run(disk.broker.transactions.commit(named(txn), chosen(disk, txn, *keys), owner))
    disk.settle()
    return outcome


def state(disk: BrokerOnDisk, txn: str) -> str:
    return disk.broker.transactions.state_of(named(txn))


def seen(disk: BrokerOnDisk, topic: str = TOPIC) -> list[bytes]:
    """What peeking shows of the topic; reading raw blocks must show the same."""
    live = disk.topic(topic)
    peeked = [message.body for message in peek_at_topic(live, live.core.log.first, 1_000, 1 << 22)]
    assert peeked == list(_raw(disk, topic))
    return peeked


def _raw(disk: BrokerOnDisk, topic: str) -> Iterable[bytes]:
    live = disk.topic(topic)
    at = live.core.log.first
    while at < live.core.log.next:
        blocks = log_blocks(live, at, 1 << 22)
        data = b"".join(disk.files.pread(fd, count, position) for fd, position, count in blocks.parts)
        at = blocks.next
        blocks.release()
        position = 0
        while position < len(data):
            span = decode_block(data, position, live.core.log.salt)
            assert not isinstance(span, BlockFault)
            yield from (span.body(number) for number in range(span.count))
            position += block_size(data, position)
