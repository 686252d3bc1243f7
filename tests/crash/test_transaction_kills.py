"""kill -9 at any moment while transactions are staged and committed over HTTP: each once, none in part."""

from __future__ import annotations

import http.client
import json
import os
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.crash.harness import kills
from tests.fakes.http_client import Answer
from tests.fakes.nsqd_process import NsqdProcess
from tests.nsqd.http.support import bodies_of
from tests.topiclog.support import framed

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

TOPICS = ("a", "b")
PARTS = 3


class Client:
    """Asks one daemon after the other; whatever it asks may never be answered."""

    def __init__(self) -> None:
        self.address = ""
        self._connection: http.client.HTTPConnection | None = None

    def ask(self, method: str, target: str, body: bytes = b"") -> tuple[int, bytes, dict[str, str]]:
        if self._connection is None or f"{self._connection.host}:{self._connection.port}" != self.address:
            self.close()
            self._connection = http.client.HTTPConnection(self.address, timeout=20)
        try:
            self._connection.request(method, target, body)
            response = self._connection.getresponse()
            return response.status, response.read(), {k.lower(): v for k, v in response.getheaders()}
        except (OSError, http.client.HTTPException):
            self.close()
            raise

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def mpub(bodies: list[bytes]) -> bytes:
    records: bytes = framed(bodies)["records"]
    return len(bodies).to_bytes(4, "big") + records


class Daemon:
    """Where the nsqd of the moment listens; nobody knows between a kill and the next start."""

    def __init__(self) -> None:
        self.address = ""
        self.is_over = threading.Event()

    def ask_until_answered(self, client: Client, method: str, target: str, body: bytes = b"") -> Any:
        """As often as it takes; None when all is over."""
        while not self.is_over.is_set():
            client.address = self.address
            try:
                status, answer, _ = client.ask(method, target, body)
            except (OSError, http.client.HTTPException):
                time.sleep(0.01)
                continue
            if status == 200:
                return json.loads(answer or b"{}")
            if status != 503:
                raise AssertionError(f"{target}: {status} {answer!r}")
        return None


class Producer(threading.Thread):
    """One transaction after the other; one it has no answer for is sent again under new attempts."""

    def __init__(self, daemon: Daemon, name: str, seed: int) -> None:
        super().__init__(name=name)
        self.daemon_process, self.random, self.client = daemon, Random(seed), Client()
        self.sequence, self.done = 0, list[int]()
        self.again = 0

    def bodies(self, sequence: int, part: int) -> dict[str, list[bytes]]:
        count = 1 + (sequence * 7 + part) % 50
        return {
            topic: [
                b"%s.%d.%d.%s.%d" % (self.name.encode(), sequence, part, topic.encode(), n)
                for n in range(count)
            ]
            for topic in TOPICS
        }

    def run(self) -> None:
        while not self.daemon_process.is_over.is_set():
            try:
                committed = self.try_once()
            except (OSError, http.client.HTTPException, LookupError):
                self.again += 1
                time.sleep(0.01)
                continue
            if committed:
                self.done.append(self.sequence)
                self.sequence += 1
        self.client.close()

    def try_once(self) -> bool:
        txn, attempt = f"{self.name}.{self.sequence}", self.random.getrandbits(62)
        self.client.address = self.daemon_process.address
        parts = []
        for part in range(PARTS):
            records = messages = 0
            for topic, bodies in self.bodies(self.sequence, part).items():
                query = f"txn={txn}&part={part}&attempt={attempt}&number={records}&topic={topic}"
                self.post(f"/txn/stage?{query}", mpub(bodies))
                records, messages = records + 1, messages + len(bodies)
            parts.append({"part": part, "attempt": attempt, "records": records, "messages": messages})
        self.post(f"/txn/commit?txn={txn}", json.dumps({"parts": parts}).encode())
        return True

    def post(self, target: str, body: bytes) -> None:
        status, answer, _ = self.client.ask("POST", target, body)
        if status in (404, 409, 503):  # what was staged before the kill belongs to an attempt that is over
            raise LookupError(answer)
        assert status == 200, answer


class Publisher(threading.Thread):
    """Publishes beside them."""

    def __init__(self, daemon: Daemon) -> None:
        super().__init__(name="beside")
        self.daemon_process, self.client = daemon, Client()
        self.sent, self.acknowledged = 0, list[bytes]()

    def run(self) -> None:
        while not self.daemon_process.is_over.is_set():
            self.sent += 1
            bodies = [b"beside.%d.%d" % (self.sent, n) for n in range(3)]
            self.client.address = self.daemon_process.address
            try:
                status, _, _ = self.client.ask("POST", "/mpub?topic=a&binary=true", mpub(bodies))
            except (OSError, http.client.HTTPException):
                time.sleep(0.01)
                continue
            if status == 200:
                self.acknowledged += bodies
        self.client.close()


def read_all(client: Client, topic: str) -> list[bytes]:
    """All that can be seen, from the first offset to the end that there is at last."""
    at, found = json.loads(client.ask("GET", f"/log/offsets?topic={topic}")[1])["first"], list[bytes]()
    while True:
        status, data, headers = client.ask("GET", f"/log/read?topic={topic}&offset={at}")
        assert status == 200, data
        if not data:
            return found
        found += bodies_of(Answer(status, headers, data))
        at = int(headers["x-nsq-next-offset"])


def check_whole(found: list[bytes], producers: list[Producer], topic: str) -> None:
    """Nothing twice, and of every transaction all or nothing."""
    counts = Counter(found)
    assert counts.most_common(1)[0][1] == 1 if counts else True, counts.most_common(3)
    present = Counter(
        (name, int(number))
        for name, number, *_ in (body.decode().split(".") for body in found)
        if name != "beside"
    )
    for producer in producers:
        for (name, sequence), count in present.items():
            if name == producer.name:
                whole = sum(len(producer.bodies(sequence, part)[topic]) for part in range(PARTS))
                assert count == whole, f"{name}.{sequence} has {count} of {whole} messages in {topic}"


class Watcher(threading.Thread):
    """Looks at the logs all the time."""

    def __init__(self, daemon: Daemon, producers: list[Producer]) -> None:
        super().__init__(name="watcher")
        self.daemon_process, self.producers, self.client = daemon, producers, Client()
        self.looks, self.failures = 0, list[BaseException]()

    def run(self) -> None:
        while not self.daemon_process.is_over.is_set():
            self.client.address = self.daemon_process.address
            for topic in TOPICS:
                try:
                    check_whole(read_all(self.client, topic), self.producers, topic)
                    self.looks += 1
                except (OSError, http.client.HTTPException, KeyError, ValueError):
                    time.sleep(0.01)
                except BaseException as error:
                    self.failures.append(error)
                    return
        self.client.close()


def wait_for_more(producers: list[Producer], limit_s: float = 20.0) -> None:
    """Each has committed something since."""
    before = [len(each.done) for each in producers]
    deadline = time.monotonic() + limit_s
    while any(len(each.done) <= count for each, count in zip(producers, before, strict=True)):
        assert time.monotonic() < deadline, "no transaction got through"
        time.sleep(0.01)


def killed_again_and_again(
    folder: Path, flags: tuple[str, ...], daemon: Daemon, pause: Callable[[], None]
) -> NsqdProcess:
    """The last one, which runs on."""
    for _ in range(kills(8)):
        with NsqdProcess(str(folder), *flags) as nsqd:
            daemon.address = nsqd.http_address
            pause()
            nsqd.kill()
    return NsqdProcess(str(folder), *flags)


@pytest.mark.parametrize(
    "flags", [(), ("--ack-after=sync", "--max-bytes-per-file=100000", "--mem-queue-size=100")]
)
def test_kills_while_transactions_are_committed(tmp_path: Path, flags: tuple[str, ...]) -> None:
    random, daemon = Random(str(flags)), Daemon()
    os.makedirs(tmp_path / "data", exist_ok=True)
    with NsqdProcess(str(tmp_path), *flags) as nsqd:
        daemon.address = nsqd.http_address
        client = Client()
        for topic in TOPICS:
            daemon.ask_until_answered(client, "POST", f"/topic/create?topic={topic}")
        client.close()
    producers = [Producer(daemon, name, random.randrange(2**32)) for name in ("q", "r")]
    publisher, watcher = Publisher(daemon), Watcher(daemon, producers)
    threads: list[threading.Thread] = [*producers, publisher, watcher]
    for thread in threads:
        thread.start()

    last = killed_again_and_again(tmp_path, flags, daemon, lambda: time.sleep(random.uniform(0.02, 0.4)))
    try:
        with last:
            daemon.address = last.http_address
            wait_for_more(producers)
            daemon.is_over.set()
            for thread in threads:
                thread.join(20)
            check_everything(daemon, producers, publisher)
    finally:
        daemon.is_over.set()

    assert not watcher.failures, watcher.failures[0]
    assert watcher.looks > 10
    assert sum(each.again for each in producers) >= kills(8), "kills came in the middle"


def check_everything(daemon: Daemon, producers: list[Producer], publisher: Publisher) -> None:
    client = Client()
    client.address = daemon.address
    for topic in TOPICS:
        found = read_all(client, topic)
        check_whole(found, producers, topic)
        for producer in producers:
            for sequence in producer.done:
                for part in range(PARTS):
                    assert set(producer.bodies(sequence, part)[topic]) <= set(found)
    assert set(publisher.acknowledged) <= set(read_all(client, "a"))
    client.close()
