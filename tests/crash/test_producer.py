"""An nsqd that is killed under a producer: what was said of each publish is true of the log."""

import asyncio
import contextlib
from pathlib import Path

import pytest
import uvloop

from nsqlake.client.errors import PublishNotSentError, PublishUnknownError
from nsqlake.client.producer import Producer
from tests.fakes.nsqd_process import NsqdProcess

pytestmark = [pytest.mark.slow]

TOPIC, CHANNEL = "orders", "archive"
PUBLISHERS = 50
BEFORE_THE_KILL = 2_000


class Book:
    """What the producer was told."""

    def __init__(self) -> None:
        self.published: set[bytes] = set()
        self.unknown: set[bytes] = set()
        self.not_sent: set[bytes] = set()

    async def publish(self, producer: Producer, body: bytes) -> None:
        try:
            await producer.publish(TOPIC, body)
        except PublishUnknownError:
            self.unknown.add(body)
        except PublishNotSentError:
            self.not_sent.add(body)
        else:
            self.published.add(body)

    @property
    def is_over(self) -> bool:
        return bool(self.unknown or self.not_sent)


async def publish_until_killed(nsqd: NsqdProcess, book: Book) -> None:
    async def publisher(name: int) -> None:
        number = 0
        while not book.is_over:
            await book.publish(producer, b"%d-%d" % (name, number))
            number += 1
            if len(book.published) == BEFORE_THE_KILL:
                nsqd.kill()

    # Few may be unanswered at once, so that some publishes wait behind them when nsqd dies.
    producer = Producer(nsqd.tcp_address, max_publish_in_flight=PUBLISHERS // 2, publish_timeout=2)
    try:
        await asyncio.gather(*(publisher(name) for name in range(PUBLISHERS)))
    finally:
        await producer.close(timeout=1)


def stored(nsqd: NsqdProcess) -> set[bytes]:
    bodies: set[bytes] = set()
    with nsqd.connect() as consumer:
        consumer.sub(TOPIC, CHANNEL, rdy=500)
        with contextlib.suppress(TimeoutError):
            while True:
                message = consumer.message(limit_s=0.5 if bodies else 5.0)
                consumer.fin(message)
                bodies.add(message.body)
    return bodies


def test_after_a_kill_published_is_stored_and_not_sent_is_not(tmp_path: Path) -> None:
    book = Book()
    with NsqdProcess(str(tmp_path)) as nsqd:
        uvloop.run(publish_until_killed(nsqd, book))

    with NsqdProcess(str(tmp_path)) as nsqd:
        found = stored(nsqd)

    assert len(book.published) >= BEFORE_THE_KILL
    assert book.unknown
    assert book.published <= found
    assert not book.not_sent & found
    assert found <= book.published | book.unknown


def test_with_another_nsqd_at_hand_a_kill_loses_nothing(tmp_path: Path) -> None:
    """What is unknown is sent again, so it may be there twice, and nobody sees an error."""

    async def publish(first: NsqdProcess, second: NsqdProcess) -> None:
        addresses = [first.tcp_address, second.tcp_address]
        async with Producer(addresses, retries=3, retry_unknown=True) as producer:
            await producer.start(wait=True)
            for number in range(4_000):
                producer.publish_nowait(TOPIC, b"%d" % number)
                if number == 1_000:
                    first.kill()
                if number % 500 == 0:
                    await producer.flush()
            assert await producer.flush() == 0

    folders = [tmp_path / "first", tmp_path / "second"]
    for folder in folders:
        folder.mkdir()
    with NsqdProcess(str(folders[0])) as first, NsqdProcess(str(folders[1])) as second:
        uvloop.run(publish(first, second))
        found = stored(second)
    with NsqdProcess(str(folders[0])) as first:
        found |= stored(first)

    assert found == {b"%d" % number for number in range(4_000)}
