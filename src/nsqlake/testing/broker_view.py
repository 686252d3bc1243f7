"""What tests ask a daemon, and what they put into it; called on its loop."""

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypedDict

from nsqlake.nsqd.core.peeking import ChannelMessage, MessageState, PeekedMessage
from nsqlake.nsqd.daemon import Daemon
from nsqlake.nsqd.live_topic import LiveChannel, LiveTopic
from nsqlake.nsqd.replay import MAX_PEEK_BYTES, MAX_PEEK_MESSAGES, peek_at_channel, peek_at_topic
from nsqlake.wire.errors import ClientError
from nsqlake.wire.mpub_bodies import decode_binary
from nsqlake.wire.names import is_valid_name

__all__ = [
    "ChannelCounts",
    "WantedCounts",
    "count_channel",
    "create_channel",
    "publish",
    "stored_messages",
    "unfinished_messages",
]

_INT32 = struct.Struct(">i")
_LEVELS = ("depth", "in_flight", "deferred", "consumers")


class WantedCounts(TypedDict, total=False):
    """Fields of `ChannelCounts`."""

    depth: int
    in_flight: int
    deferred: int
    consumers: int
    finished: int
    requeued: int
    timed_out: int
    dead: int


@dataclass(frozen=True, slots=True)
class ChannelCounts:
    """A channel at one moment. The last four are totals since nsqd started."""

    depth: int  # ready to be delivered
    in_flight: int
    deferred: int
    consumers: int
    finished: int  # emptied ones too
    requeued: int
    timed_out: int
    dead: int

    def meet(self, wanted: WantedCounts) -> bool:
        """Whether levels are exactly as wanted and totals, which only grow, at least so."""
        for name, count in wanted.items():
            found = getattr(self, name)
            if found != count if name in _LEVELS else found < count:
                return False
        return True


def count_channel(daemon: Daemon, topic: str, channel: str) -> ChannelCounts | None:
    """None while there is no such channel."""
    live = _find_channel(daemon, topic, channel)
    if live is None:
        return None
    core = live.core
    depth, in_flight, deferred = core.depth, core.ledger.out.count, len(core.ledger.deferred)
    buried = core.dead_count - len(core.ledger.dead)
    return ChannelCounts(
        depth=depth,
        in_flight=in_flight,
        deferred=deferred,
        consumers=len(core.subscriptions),
        finished=max(0, core.message_count - depth - in_flight - deferred - buried),
        requeued=core.requeue_count,
        timed_out=core.timeout_count,
        dead=core.dead_count,
    )


def _find_channel(daemon: Daemon, topic: str, channel: str) -> LiveChannel | None:
    live = daemon.broker.topics.get(topic)
    return live.channels.get(channel) if live is not None else None


# Changing ----------------------------------------------------------------------------------------------


async def publish(daemon: Daemon, topic: str, bodies: Sequence[bytes], delay_ns: int) -> None:
    """As an MPUB does, or as DPUBs with one delay. Raises ClientError as nsqd would answer."""
    live = await _open_topic(daemon, topic)
    options, broker = daemon.options, daemon.broker
    if not 0 <= delay_ns <= options.max_req_timeout_ns:
        raise ClientError("E_INVALID", f"DPUB timeout {delay_ns} ns out of range")
    records = b"".join([_INT32.pack(len(body)) + body for body in bodies])
    messages = decode_binary(
        _INT32.pack(len(bodies)) + records,
        max_msg_size=options.max_msg_size,
        max_body_size=max(options.max_body_size, len(records) + _INT32.size),
    )
    broker.turn.publish(live, messages, broker.now_ns() + delay_ns if delay_ns else 0)


async def create_channel(daemon: Daemon, topic: str, channel: str) -> None:
    if not is_valid_name(channel.encode()):
        raise ClientError("E_BAD_CHANNEL", f"channel name {channel!r} is not valid")
    await daemon.broker.open_channel(await _open_topic(daemon, topic), channel)


async def _open_topic(daemon: Daemon, topic: str) -> LiveTopic:
    if not is_valid_name(topic.encode()):
        raise ClientError("E_BAD_TOPIC", f"topic name {topic!r} is not valid")
    return await daemon.broker.open_topic(topic)


# Looking -----------------------------------------------------------------------------------------------


def stored_messages(daemon: Daemon, topic: str) -> list[PeekedMessage]:
    """All that the topic's log holds, finished or not."""
    live = daemon.broker.topics.get(topic)
    return list(_stored(live)) if live is not None else []


def _stored(topic: LiveTopic) -> Iterator[PeekedMessage]:
    offset = topic.core.log.oldest
    while found := peek_at_topic(topic, offset, MAX_PEEK_MESSAGES, MAX_PEEK_BYTES):
        yield from found
        offset = found[-1].offset + 1


def unfinished_messages(daemon: Daemon, topic: str, channel: str) -> list[ChannelMessage]:
    """What the channel still holds, with the state and the attempts of each."""
    live = _find_channel(daemon, topic, channel)
    if live is None:
        return []
    return [message for message in _flowed(live) if message.state is not MessageState.FINISHED]


def _flowed(channel: LiveChannel) -> Iterator[ChannelMessage]:
    offset = channel.topic.core.log.oldest
    while found := peek_at_channel(channel, MAX_PEEK_MESSAGES, MAX_PEEK_BYTES, offset):
        yield from found
        offset = found[-1].offset + 1
