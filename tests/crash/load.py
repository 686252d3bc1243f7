"""Producers and consumers that work until they are told to stop or their daemon is gone."""

from __future__ import annotations

import enum
import itertools
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random

from nsqlake.wire.received_message import Message
from tests.crash.bodies import MIN_BODY_BYTES, Content, Key
from tests.crash.book import MS, Book, ChannelBook, Outcome
from tests.crash.client import Client, DisconnectedError, RefusedError

MAX_DELAY_MS = 800
WINDOW = 32  # publishes sent ahead of their answers
DRAIN_READY = 1_000
STALLED_S = 15.0  # a drain without a new message for so long is over
QUIET_S = 0.15  # and one that has all it waits for looks this long for what should not come

_producer_numbers = itertools.count(1)


class Kind(enum.Enum):
    PUB = "PUB"
    PIPELINED = "PUB, many at a time"
    MPUB = "MPUB"
    DPUB = "DPUB"


class Habit(enum.Enum):
    FINISH = "finish"
    HOLD = "hold"
    REQUEUE = "requeue"


class Worker(threading.Thread):
    """A thread with a connection. It ends quietly with the daemon; any other error is kept."""

    def __init__(self, port: int, seed: int) -> None:
        super().__init__(daemon=True)
        self._port = port
        self.random = Random(seed)
        self.stopping = threading.Event()
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            with Client(self._port) as client:
                self.work(client)
        except DisconnectedError:
            return
        except BaseException as error:
            self.error = error

    def work(self, client: Client) -> None:
        raise NotImplementedError

    def end(self) -> None:
        self.stopping.set()
        self.join(60)
        assert not self.is_alive(), f"{self} hangs"
        if self.error is not None:
            raise self.error


class Producer(Worker):
    """Publishes to one topic and writes down what was answered. A refusal is no error."""

    def __init__(self, port: int, book: Book, topic: str, kind: Kind, seed: int) -> None:
        super().__init__(port, seed)
        self._book, self._topic, self._kind = book, topic, kind
        self._number = next(_producer_numbers)
        self._sequence = itertools.count()
        self._groups = itertools.count(1)
        self.refusals: list[str] = []
        self.pause_s = 0.0

    def work(self, client: Client) -> None:
        steps = {
            Kind.PUB: self._publish,
            Kind.PIPELINED: self._publish_ahead,
            Kind.MPUB: self._publish_many,
            Kind.DPUB: self._publish_deferred,
        }
        while not self.stopping.is_set():
            steps[self._kind](client)
            if self.pause_s:
                time.sleep(self.pause_s)

    def _publish(self, client: Client) -> None:
        content = self._content()
        body = self._body(content)
        with self._accounted([content]):
            client.publish(self._topic, body)

    def _publish_ahead(self, client: Client) -> None:
        contents = [self._content() for _ in range(WINDOW)]
        self._book.attempt(contents)
        for content in contents:
            client.send_publish(self._topic, self._body(content))
        for content in contents:
            with self._accounted([content]):
                client.expect_ok()

    def _publish_many(self, client: Client) -> None:
        size, group = self.random.choice([1, 3, 40, 200]), next(self._groups)
        contents = [Content(self._number, next(self._sequence), group, size) for _ in range(size)]
        nbytes = self._nbytes()
        is_equal = self.random.random() < 0.5
        bodies = [content.encode(nbytes if is_equal else self._nbytes()) for content in contents]
        with self._accounted(contents):
            client.publish_many(self._topic, bodies)

    def _publish_deferred(self, client: Client) -> None:
        delay_ms = self.random.randrange(MAX_DELAY_MS)
        content = self._content(due_ns=time.time_ns() + delay_ms * MS)
        with self._accounted([content]):
            client.publish_deferred(self._topic, delay_ms, self._body(content))

    @contextmanager
    def _accounted(self, contents: list[Content]) -> Iterator[None]:
        self._book.attempt(contents)
        try:
            yield
        except RefusedError as error:
            self.refusals.append(str(error))
            self._book.answer(contents, Outcome.REFUSED)
        else:
            self._book.answer(contents, Outcome.ACKNOWLEDGED)

    def _content(self, due_ns: int = 0) -> Content:
        return Content(self._number, next(self._sequence), due_ns=due_ns)

    def _body(self, content: Content) -> bytes:
        return content.encode(self._nbytes())

    def _nbytes(self) -> int:
        return MIN_BODY_BYTES + self.random.randrange(300)


class Consumer(Worker):
    """Takes messages of one channel: finishes them, holds them, or requeues them with a delay at first."""

    def __init__(self, port: int, book: Book, topic: str, channel: str, habit: Habit, seed: int) -> None:
        super().__init__(port, seed)
        self._topic, self._channel, self._habit = topic, channel, habit
        self._book = book.channel(channel)

    def work(self, client: Client) -> None:
        client.subscribe(self._topic, self._channel, ready=200)
        while not self.stopping.is_set():
            self._take(client, client.messages(0.05))
        client.ready(0)
        client.barrier()
        self._take(client, client.messages(0))
        # A socket closed with input unread would take finishes on their way with it.
        client.barrier()

    def _take(self, client: Client, messages: list[Message]) -> None:
        pairs = [(message, key) for message in messages if (key := self._book.deliver(message)) is not None]
        if self._habit is Habit.HOLD or not pairs:
            return
        requeue = self._habit is Habit.REQUEUE
        again = [pair for pair in pairs if requeue and pair[0].attempts < 3 and self.random.random() < 0.5]
        done = [pair for pair in pairs if pair not in again]
        if done:
            finish_all(client, self._book, done)
        if again:
            self._requeue(client, again)

    def _requeue(self, client: Client, pairs: list[tuple[Message, Key]]) -> None:
        waits = []
        for message, key in pairs:
            delay_ms = self.random.choice([0, 100, 400, MAX_DELAY_MS])
            sent_ns = time.time_ns()
            client.requeue(message, delay_ms)
            waits.append((key, sent_ns, sent_ns + delay_ms * MS))
        client.barrier()
        for wait in waits:
            self._book.requeue(*wait)


def finish_all(client: Client, book: ChannelBook, pairs: list[tuple[Message, Key]]) -> None:
    # Written down first: a finish that was sent may count even if we never hear of the daemon again.
    book.finish(key for _, key in pairs)
    client.finish(*(message for message, _ in pairs))


@contextmanager
def working(*workers: Worker) -> Iterator[None]:
    """The workers work inside the block; at its end they are told to stop, and their errors raised."""
    for worker in workers:
        worker.start()
    try:
        yield
    finally:
        for worker in workers:
            worker.stopping.set()
    for worker in workers:
        worker.end()


def producers(
    port: int, book: Book, topic: str, seed: int, kinds: tuple[Kind, ...] = tuple(Kind)
) -> list[Worker]:
    return [Producer(port, book, topic, kind, seed + number) for number, kind in enumerate(kinds)]


def drain(port: int, book: Book, topic: str, *channels: str) -> None:
    """Take and finish everything there is on the channels."""
    for channel in channels:
        with Client(port) as client:
            client.subscribe(topic, channel, ready=DRAIN_READY)
            _drain(client, book.channel(channel), book.last_due_ns)


def _drain(client: Client, book: ChannelBook, last_due_ns: int) -> None:
    last_progress, owed = time.monotonic(), book.unfinished
    while time.monotonic() - last_progress < STALLED_S:
        is_complete = not owed and time.time_ns() > last_due_ns
        messages = client.messages(QUIET_S)
        if is_complete and not messages:
            break
        pairs = [(message, key) for message in messages if (key := book.deliver(message)) is not None]
        finish_all(client, book, pairs)
        owed.difference_update(key for _, key in pairs)
        if messages:
            last_progress = time.monotonic()
    client.barrier()
