"""Messages that were given up: moved to their dead topic, listed there, and brought back.

A dead letter is durable in its topic before it is finished in its channel, and a replayed one in its own
topic before it is finished as a dead letter. Only a crash between the two leaves both.
"""

import asyncio
import logging
from collections.abc import AsyncIterator
from itertools import islice
from time import perf_counter_ns
from typing import TYPE_CHECKING

import msgspec

from nsqlake.errors import NsqlakeError
from nsqlake.nsqd.core.dead_letters import (
    DEAD_CHANNEL,
    DeadLetter,
    DeadTag,
    ReplayTag,
    dead_topic_name,
    decode_tag,
    discard_waiting,
    pass_over,
    unfinished,
)
from nsqlake.nsqd.live_topic import LiveChannel, LiveTopic
from nsqlake.runtime.clock import Clock
from nsqlake.runtime.pace import SLICE_NS
from nsqlake.topiclog.errors import TopicLogError
from nsqlake.wire.message import id_digits

if TYPE_CHECKING:
    from nsqlake.nsqd.broker import Broker

__all__ = ["DeadLetterBusyError", "DeadLetterError", "DeadLetters", "NoDeadLetterError"]

logger = logging.getLogger(__name__)

# What is done before the loop gets a turn: messages, and bytes of them.
_BATCH = 256
_BATCH_BYTES = 4 * 1024 * 1024


class DeadLetterError(NsqlakeError):
    """Dead letters cannot be stored or replayed now; the reason is for the operator."""

    def __init__(self, channel: LiveChannel, reason: str) -> None:
        super().__init__(f"{channel}: {reason}")
        self.channel, self.reason = channel, reason


class NoDeadLetterError(DeadLetterError):
    """No dead letter of the channel has this id."""

    def __init__(self, channel: LiveChannel, message_id: str) -> None:
        super().__init__(channel, f"no dead letter {message_id}")


class DeadLetterBusyError(DeadLetterError):
    """Somebody else has the dead letter, or is replaying; it may be tried again."""


class DeadLetters:
    """The dead letters of all channels."""

    def __init__(self, broker: "Broker", clock: Clock) -> None:
        self._broker, self._clock = broker, clock
        self._moving: dict[LiveChannel, asyncio.Task[None]] = {}
        self._stalled: dict[LiveChannel, str] = {}  # why the last attempt failed, until `retry`
        self._replaying: set[LiveChannel] = set()

    @property
    def is_busy(self) -> bool:
        return bool(self._moving or self._replaying)

    # Moving -------------------------------------------------------------------------------------------

    def collect(self, channel: LiveChannel) -> None:
        """The channel has given messages up: have them moved."""
        if channel not in self._stalled:
            self._start(channel)

    def retry(self) -> None:
        """Once a second: try again what could not be stored."""
        for channel in list(self._stalled):
            if channel.core.is_closed or not channel.core.ledger.dead:
                del self._stalled[channel]
            else:
                self._start(channel)

    def _start(self, channel: LiveChannel) -> None:
        if channel in self._moving or self._broker.is_exiting:
            return
        task = asyncio.ensure_future(self._move(channel))
        self._moving[channel] = task
        task.add_done_callback(lambda _: self._ended(channel, task))

    def _ended(self, channel: LiveChannel, task: "asyncio.Task[None]") -> None:
        del self._moving[channel]
        if not task.cancelled() and (error := task.exception()) is not None:
            self._stalled[channel] = str(error)
            logger.error("%s: dead letters not moved", channel, exc_info=error)

    async def _move(self, channel: LiveChannel) -> None:
        core = channel.core
        while core.ledger.dead and not core.is_closed and not self._broker.is_exiting:
            try:
                await self._move_some(channel)
            except (NsqlakeError, OSError) as error:
                if self._stalled.get(channel) != str(error):
                    logger.error("%s: dead letters not moved, will be tried again: %s", channel, error)
                self._stalled[channel] = str(error)
                return
        self._stalled.pop(channel, None)

    async def _move_some(self, channel: LiveChannel) -> None:
        topic = await self._open(channel)
        stored, failure = self._store_some(channel, topic)
        if stored:
            await _synced(topic)
            if topic.core.is_closed:
                raise DeadLetterError(channel, f"{topic} is being deleted")
            for offset in stored:
                channel.core.ledger.bury(offset)
            self._broker.turn.write_journal(channel)
            logger.info("%s: dead letters moved to %s count=%d", channel, topic.name, len(stored))
        if failure is not None:
            raise failure

    async def _open(self, channel: LiveChannel) -> LiveTopic:
        name = dead_topic_name(channel.topic.name, channel.core.name)
        topic = await self._broker.open_topic(name, while_draining=True)
        await self._broker.open_channel(topic, DEAD_CHANNEL)
        return topic

    def _store_some(self, channel: LiveChannel, topic: LiveTopic) -> tuple[list[int], TopicLogError | None]:
        """The offsets of what was written, and why not more."""
        self._broker.turn.flush(topic)
        stored: list[int] = []
        room = _BATCH_BYTES
        try:
            for offset in islice(list(channel.core.ledger.dead), _BATCH):
                room -= self._store(channel, offset, topic)
                stored.append(offset)
                if room <= 0:
                    break
        except TopicLogError as error:
            return stored, error
        finally:
            self._broker.turn.flowed(topic)
        return stored, None

    def _store(self, channel: LiveChannel, offset: int, topic: LiveTopic) -> int:
        """Write one dead letter; returns its bytes."""
        found = _read(channel.topic, offset)
        if found is None:
            return 0  # damaged since, or fallen out of a memory log: there is nothing left to move
        body, published_ns = found
        ledger = channel.core.ledger
        tag = DeadTag(
            reason=ledger.dead[offset],
            topic=channel.topic.name,
            channel=channel.core.name,
            id=id_digits(ledger.out.id_base + offset).decode(),
            attempts=ledger.attempts.get(offset, 0),
            published_ns=published_ns,
            at_ns=self._clock.now_ns(),
        )
        self._publish(topic, body, msgspec.json.encode(tag))
        return len(body)

    def _publish(self, topic: LiveTopic, body: bytes, tag: bytes, due_ns: int = 0) -> int:
        record = len(body).to_bytes(4, "big") + body
        stamp_ns = self._clock.timestamp_ns()
        return topic.core.publish(
            record, 1, timestamp_ns=stamp_ns, record_size=len(record), due_ns=due_ns, tag=tag
        )

    # Listing ------------------------------------------------------------------------------------------

    async def waiting(self, channel: LiveChannel, after: int, limit: int) -> list[DeadLetter]:
        """The dead letters of `channel` that wait behind the offset `after`, at most `limit`."""
        letters: list[DeadLetter] = []
        if limit > 0:
            async for letter in self._letters(channel, after + 1):
                letters.append(letter)
                if len(letters) >= limit:
                    break
        return letters

    async def _letters(self, channel: LiveChannel, start: int) -> AsyncIterator[DeadLetter]:
        dead = self._dead_channel(channel)
        if dead is None:
            return
        log, until_ns = dead.topic.core.log, perf_counter_ns() + SLICE_NS
        for first, stop in unfinished(dead.core.ledger, dead.topic.core.backlog.fanout):
            for offset, _, tag in log.tags(max(first, start), stop):
                letter = _letter(channel, dead, offset, tag)
                if letter is not None:
                    yield letter
                if perf_counter_ns() >= until_ns:
                    await asyncio.sleep(0)
                    until_ns = perf_counter_ns() + SLICE_NS

    def _dead_channel(self, channel: LiveChannel) -> LiveChannel | None:
        topic = self._broker.topics.get(dead_topic_name(channel.topic.name, channel.core.name))
        return None if topic is None else topic.channels.get(DEAD_CHANNEL)

    # Replaying ----------------------------------------------------------------------------------------

    async def replay(self, channel: LiveChannel, message_id: str | None) -> int:
        """Bring one dead letter of `channel`, or all that wait, back to it; returns how many.

        Each is stored again in its topic, and no other channel of the topic is sent it. What a consumer
        of the channel `dead` has in flight is left alone. Raises DeadLetterError, and TopicLogError or
        OSError when the disk does not take it.
        """
        if channel in self._replaying:
            raise DeadLetterBusyError(channel, "dead letters are being replayed already")
        self._replaying.add(channel)
        try:
            if message_id is None:
                return await self._replay_all(channel)
            return await self._replay_some(channel, [await self._find(channel, message_id)])
        finally:
            self._replaying.discard(channel)

    async def _find(self, channel: LiveChannel, message_id: str) -> DeadLetter:
        try:
            offset = int(message_id, 16) - channel.core.ledger.out.id_base
        except ValueError:
            offset = -1
        found = await self.waiting(channel, offset - 1, 1) if offset >= 0 else []
        if not found or found[0].id != message_id:
            raise NoDeadLetterError(channel, message_id)
        if found[0].is_in_flight:
            raise DeadLetterBusyError(channel, f"dead letter {message_id} is in flight")
        return found[0]

    async def _replay_all(self, channel: LiveChannel) -> int:
        dead = self._dead_channel(channel)
        stop = 0 if dead is None else dead.topic.core.backlog.fanout
        count, after = 0, 0
        while letters := [at for at in await self.waiting(channel, after, _BATCH) if at.offset < stop]:
            after = letters[-1].offset
            count += await self._replay_some(channel, [at for at in letters if not at.is_in_flight])
        return count

    async def _replay_some(self, channel: LiveChannel, letters: list[DeadLetter]) -> int:
        dead = self._dead_channel(channel)
        assert dead is not None
        count = 0
        while letters:
            self._check(channel)
            stored = self._publish_again(channel, dead, letters)
            letters = letters[len(stored) :]
            await _synced(channel.topic)
            await self._finish(dead, stored)
            count += len(stored)
        return count

    def _check(self, channel: LiveChannel) -> None:
        if self._broker.refusal:
            raise DeadLetterError(channel, self._broker.refusal)
        if channel.core.is_closed or channel.topic.core.is_closed:
            raise DeadLetterError(channel, "is being deleted")
        if channel.topic.core.is_paused:
            raise DeadLetterBusyError(channel, f"{channel.topic} is paused")

    def _publish_again(self, channel: LiveChannel, dead: LiveChannel, letters: list[DeadLetter]) -> list[int]:
        """Store letters for one channel; returns the offsets of those that need not be stored any more.

        Each is published as if with a delay, which makes every channel keep an entry for it, and the
        entries of the others are cancelled before anybody can be sent it.
        """
        topic, stored, room = channel.topic, [], _BATCH_BYTES
        self._broker.turn.flush(topic)
        try:
            for letter in letters:
                found = _read(dead.topic, letter.offset)
                if found is not None:
                    tag = ReplayTag(replayed_from=dead.topic.name, channel=channel.core.name, id=letter.id)
                    self._publish_to(channel, found[0], msgspec.json.encode(tag))
                    room -= len(found[0])
                stored.append(letter.offset)
                if room <= 0:
                    break
        except TopicLogError:
            if not stored:
                raise
        for other in topic.channels.values():
            self._broker.turn.write_journal(other)
            self._broker.turn.note(other)
        self._broker.turn.flowed(topic)
        return stored

    def _publish_to(self, channel: LiveChannel, body: bytes, tag: bytes) -> None:
        topic = channel.topic
        offset = self._publish(topic, body, tag, due_ns=self._clock.now_ns())
        for other in topic.channels.values():
            if other is not channel:
                discard_waiting(other.core.ledger, [offset])

    async def _finish(self, dead: LiveChannel, offsets: list[int]) -> None:
        ledger, turn = dead.core.ledger, self._broker.turn
        discard_waiting(ledger, offsets)
        for offset in sorted(offsets):
            while not pass_over(ledger, dead.topic.core.backlog, offset, _BATCH):
                await asyncio.sleep(0)
            if ledger.cursor == offset:
                ledger.drop_fresh(offset, 1)
        turn.wake(dead)
        turn.write_journal(dead)
        await self._broker.sync_journal(dead)


async def _synced(topic: LiveTopic) -> None:
    """What was written is durable: a message must not become less safe by being moved."""
    synced = topic.wait_synced()
    if synced is not None:
        await synced


def _read(topic: LiveTopic, offset: int) -> tuple[bytes, int] | None:
    """Body and timestamp of a message, None when it is no longer there."""
    span = topic.core.log.read(offset)
    if span is None or span.base > offset:
        return None
    return span.body(offset - span.base), span.timestamp(offset - span.base)


def _letter(channel: LiveChannel, dead: LiveChannel, offset: int, tag: bytes) -> DeadLetter | None:
    """None for what is no dead letter of this channel: another one may share the topic."""
    said = decode_tag(tag)
    found = None if said is None else _read(dead.topic, offset)
    if said is None or found is None or (said.topic, said.channel) != (channel.topic.name, channel.core.name):
        return None
    out = dead.core.ledger.out
    return DeadLetter(
        offset=offset,
        id=id_digits(out.id_base + offset).decode(),
        original_id=said.id,
        reason=said.reason,
        attempts=said.attempts,
        published_ns=said.published_ns,
        at_ns=said.at_ns,
        size=len(found[0]),
        is_in_flight=out.owner(offset) != 0,
    )
