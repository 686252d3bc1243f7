"""Small steps that the tests of topics and channels share; no disk."""

from typing import Any

from nsqlake.nsqd.core.channel import Channel, ChannelLimits
from nsqlake.nsqd.core.subscription import Subscription
from nsqlake.nsqd.core.topic import Topic
from nsqlake.topiclog import LogOptions, MemoryLog, ReadError
from nsqlake.topiclog.block import Span
from tests.nsqd.core.harness import ID_BASE, SECOND_NS, Delivered, parse
from tests.topiclog.support import framed

PAGE = 4096
FIRST = 10 * PAGE
NOW_NS = 1_700_000_000_000_000_000
TIMEOUT_NS = 60 * SECOND_NS
MAX_TIMEOUT_NS = 900 * SECOND_NS


class MovingLog(MemoryLog):
    """A memory log that can be told to fail reads, to find nothing, and that part of it is on disk."""

    def __init__(self, first: int = FIRST, **options: int) -> None:
        super().__init__(uuid=bytes(16), first_offset=first, options=LogOptions(**options))
        self.is_readable = self.has_content = True
        self.in_memory_from: int | None = None

    def read(self, offset: int) -> Span | None:
        if not self.is_readable:
            raise ReadError("segment", OSError(24, "Too many open files"))
        return super().read(offset) if self.has_content else None

    @property
    def memory_first(self) -> int:
        return self.first if self.in_memory_from is None else self.in_memory_from


def new_topic(log: Any = None, *, name: str = "orders", draw: float = 0.5, **limits: Any) -> Topic:
    known = {"max_msg_timeout_ns": MAX_TIMEOUT_NS, "ephemeral_depth": 3, **limits}
    return Topic(
        name, log or MovingLog(), id_base=ID_BASE, limits=ChannelLimits(**known), random=lambda: draw
    )


def publish(topic: Topic, *bodies: bytes, now_ns: int = NOW_NS, due_ns: int = 0) -> int:
    return topic.publish(**framed(bodies), timestamp_ns=now_ns, due_ns=due_ns)


def publish_many(topic: Topic, count: int, *, size: int = 4) -> int:
    return publish(topic, *(b"%0*d" % (size, number) for number in range(count)))


def consumer(channel: Channel, ready: int = 10, **options: Any) -> Subscription:
    sub = Subscription("consumer", **{"msg_timeout_ns": TIMEOUT_NS, **options})
    assert channel.subscribe(sub)
    channel.set_ready(sub, ready)
    return sub


def receive(channel: Channel, now_ns: int = NOW_NS) -> list[Delivered]:
    """What one turn delivers, to whomever."""
    return [message for _, frames in channel.pump(now_ns) for message in parse(frames)]


def receive_all(channel: Channel, now_ns: int = NOW_NS) -> list[Delivered]:
    received: list[Delivered] = []
    while channel.can_deliver:
        received += receive(channel, now_ns)
    return received


def offsets_of(messages: list[Delivered]) -> list[int]:
    return [message.offset for message in messages]


def channel_with(
    messages: int = 0, *, name: str = "c", log: MovingLog | None = None, **limits: Any
) -> tuple[Topic, Channel]:
    topic = new_topic(log, **limits)
    channel = topic.add_channel(name, NOW_NS)
    if messages:
        publish_many(topic, messages)
    return topic, channel


def counts(channel: Channel) -> tuple[int, int, int]:
    """Depth, in flight, deferred."""
    return channel.depth, channel.ledger.out.count, len(channel.ledger.deferred)
