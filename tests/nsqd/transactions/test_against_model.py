"""Random stories of two producers and other publishers, with kills and bad disks, against a plain model."""

import asyncio
import errno
import logging
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from nsqlake.errors import NsqlakeError
from nsqlake.nsqd.transactions.errors import DecidedError
from nsqlake.nsqd.transactions.store import ChosenPart
from tests.crash.sim_broker import DATA_PATH, empty_disk
from tests.fakes.sim_files import SimFiles
from tests.nsqd.broker_on_disk import BrokerOnDisk
from tests.nsqd.transactions.support import named, seen, stage

TOPICS = ("a", "b")
PRODUCERS = ("q", "r")
HOUR_MS = 3_600_000


class KilledError(BaseException):
    """The process is gone: nothing more is written."""


class Staged:
    """What the model knows of one transaction: bodies by topic for each attempt of each part."""

    def __init__(self) -> None:
        self.attempts: dict[tuple[int, int], list[tuple[str, tuple[bytes, ...]]]] = {}
        self.chosen: list[tuple[int, int]] = []

    def bodies(self, topic: str) -> list[bytes]:
        records = [record for key in self.chosen for record in self.attempts[key]]
        return [body for name, bodies in records if name == topic for body in bodies]


class Stories(RuleBasedStateMachine):
    @initialize()
    def begin(self) -> None:
        self.files = SimFiles(empty_disk())
        self.disk = BrokerOnDisk(DATA_PATH, files=self.files, mem_queue_size=10, max_bytes_per_file=600)
        for topic in TOPICS:
            self.disk.channel(topic)
        self.numbers = dict.fromkeys(PRODUCERS, 0)
        self.open: dict[str, Staged] = {}
        self.pending: dict[str, Staged] = {}  # committed, but the answer was no
        self.visible: dict[str, Counter[bytes]] = {topic: Counter() for topic in TOPICS}
        self.beside: dict[str, list[bytes]] = {topic: [] for topic in TOPICS}
        self.consumed: dict[str, set[int]] = {topic: set() for topic in TOPICS}
        self.made = 0

    def teardown(self) -> None:
        if hasattr(self, "disk"):
            self.disk.loop.close()

    def new_bodies(self, count: int) -> tuple[bytes, ...]:
        self.made += count
        return tuple(b"%d" % (self.made - n) * (1 + n % 3) for n in range(count))

    def txn(self, producer: str) -> str:
        return f"{producer}.{self.numbers[producer]}"

    # What happens -------------------------------------------------------------------------------------

    @rule(topic=st.sampled_from(TOPICS), count=st.integers(1, 3))
    def publish(self, topic: str, count: int) -> None:
        bodies = self.new_bodies(count)
        self.disk.publish(*bodies, topic=topic)
        self.beside[topic] += bodies

    @rule(
        producer=st.sampled_from(PRODUCERS),
        part=st.integers(0, 1),
        attempt=st.integers(0, 1),
        topic=st.sampled_from(TOPICS),
        count=st.integers(1, 4),
        twice=st.booleans(),
    )
    def stage(self, producer: str, part: int, attempt: int, topic: str, count: int, twice: bool) -> None:
        txn, bodies, key = self.txn(producer), self.new_bodies(count), (part, attempt)
        known = self.open.get(txn, Staged())
        number = len(known.attempts.get(key, ()))
        where: dict[str, Any] = {"part": part, "attempt": attempt, "number": number, "topic": topic}
        stored = stage(self.disk, txn, *bodies, **where)
        assert stored == (txn not in self.pending)
        if stored:
            self.open[txn] = known
            known.attempts.setdefault(key, []).append((topic, bodies))
        if twice:
            assert not stage(self.disk, txn, *bodies, **where)

    @rule(producer=st.sampled_from(PRODUCERS), latest=st.booleans())
    def commit(self, producer: str, latest: bool) -> None:
        self.try_to_commit(self.txn(producer), latest)

    @rule(
        producer=st.sampled_from(PRODUCERS),
        call=st.sampled_from(["write", "writev", "sync_dir", "rename", "create", "fsync", "fdatasync"]),
        after=st.integers(0, 4),
        code=st.sampled_from([errno.ENOSPC, errno.EIO]),
    )
    def commit_on_a_bad_disk(self, producer: str, call: str, after: int, code: int) -> None:
        """The n-th such call fails; a topic whose sync failed needs a restart."""
        left = after

        def before(name: str, path: str) -> None:
            nonlocal left
            left -= name == call
            if name == call and left < 0:
                raise OSError(code, "no", path)

        self.files.before_call = before
        try:
            self.try_to_commit(self.txn(producer), latest=True)
        finally:
            self.files.before_call = None
        if any(topic.failure for topic in self.disk.broker.topics.values()):
            self.kill()

    @rule(producer=st.sampled_from(PRODUCERS), after=st.integers(0, 60))
    def commit_and_kill(self, producer: str, after: int) -> None:
        left = after

        def before(_name: str, _path: str) -> None:
            nonlocal left
            left -= 1
            if left < 0:
                raise KilledError

        txn = self.txn(producer)
        self.files.before_call = before
        try:
            self.try_to_commit(txn, latest=False)
        except KilledError:
            pass
        finally:
            self.files.before_call = None
        staged = self.open.get(txn, Staged())
        self.kill()
        if txn == self.txn(producer) and self.disk.broker.transactions.state_of(named(txn)) == "done":
            self.happened(txn, staged)

    @rule(producer=st.sampled_from(PRODUCERS))
    def abort(self, producer: str) -> None:
        txn = self.txn(producer)
        try:
            self.disk.broker.transactions.abort(named(txn))
        except DecidedError:
            assert txn in self.pending
        else:
            assert txn not in self.pending
            self.open.pop(txn, None)

    @rule(producer=st.sampled_from(PRODUCERS))
    def go_on_to_the_next(self, producer: str) -> None:
        """The old number is over, whatever became of it."""
        old = self.txn(producer)
        if old in self.pending or self.disk.broker.transactions.state_of(named(old)) == "committed":
            return
        self.numbers[producer] += 1
        self.open.pop(old, None)
        bodies = self.new_bodies(1)
        stage(self.disk, self.txn(producer), *bodies, topic="a", number=0)
        self.open[self.txn(producer)] = staged = Staged()
        staged.attempts[0, 0] = [("a", bodies)]
        assert self.disk.broker.transactions.state_of(named(old)) in ("unknown", "done")

    @rule()
    def expire(self) -> None:
        self.disk.clock.advance_ms(2 * HOUR_MS)

        async def tidy() -> None:
            self.disk.broker.transactions.tidy()
            while self.disk.broker.transactions.is_busy:
                await asyncio.sleep(0)

        self.disk.run(tidy())
        self.open.clear()
        self.settle_pending()

    @rule()
    def kill(self) -> None:
        self.files.forget_descriptors()
        self.disk.kill_and_start()
        self.settle_pending()

    @rule(topic=st.sampled_from(TOPICS))
    def consume(self, topic: str) -> None:
        channel = self.disk.channel(topic)
        offsets = self.disk.drained(channel)
        self.disk.broker.turn.write_journal(channel)
        assert not self.consumed[topic].intersection(offsets)
        self.consumed[topic].update(offsets)
        assert len(self.consumed[topic]) == len(seen(self.disk, topic))

    # What the model makes of it -----------------------------------------------------------------------

    def try_to_commit(self, txn: str, latest: bool) -> None:
        """Of every part the highest attempt, or the lowest."""
        staged = self.pending.get(txn) or self.open.get(txn, Staged())
        if txn not in self.pending:
            parts = sorted({part for part, _ in staged.attempts})
            pick = max if latest else min
            staged.chosen = [pick(key for key in staged.attempts if key[0] == part) for part in parts]
        chosen = [
            ChosenPart(*key, len(staged.attempts[key]), sum(len(b) for _, b in staged.attempts[key]))
            for key in staged.chosen
        ]
        was_done = self.disk.broker.transactions.state_of(named(txn)) == "done"
        try:
            outcome = self.disk.run(self.disk.broker.transactions.commit(named(txn), chosen))
        except (NsqlakeError, OSError):
            self.check_refusal(txn, staged)
            return
        assert outcome.already == was_done
        assert outcome.lost == 0
        if was_done:
            self.open.pop(txn, None)
        else:
            self.happened(txn, staged)
        self.settle_pending()

    def check_refusal(self, txn: str, staged: Staged) -> None:
        state = self.disk.broker.transactions.state_of(named(txn))
        assert state != "done"
        if state == "committed":
            self.open.pop(txn, None)
            self.pending[txn] = staged
        else:
            assert txn not in self.pending
        self.settle_pending()

    def settle_pending(self) -> None:
        """Those that were only waiting may be through."""
        for txn, staged in list(self.pending.items()):
            state = self.disk.broker.transactions.state_of(named(txn))
            assert state in ("committed", "done"), "what was decided is never forgotten"
            if state == "done":
                self.happened(txn, staged)

    def happened(self, txn: str, staged: Staged) -> None:
        self.open.pop(txn, None)
        self.pending.pop(txn, None)
        for topic in TOPICS:
            self.visible[topic].update(staged.bodies(topic))
        self.numbers[txn.partition(".")[0]] += 1

    @invariant()
    def everything_is_seen_once_and_nothing_else(self) -> None:
        if not hasattr(self, "disk"):
            return
        for topic in TOPICS:
            found = Counter(seen(self.disk, topic))
            hidden = any(
                topic in {name for key in s.chosen for name, _ in s.attempts[key]}
                for s in self.pending.values()
            )
            beside = Counter(self.beside[topic])
            if hidden:
                assert found - beside == self.visible[topic]
                assert found <= self.visible[topic] + beside
            else:
                assert found == self.visible[topic] + beside


@pytest.fixture(autouse=True)
def silence() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def test_every_story_ends_as_the_model_says() -> None:
    given = settings()
    stories = settings(given, max_examples=max(30, given.max_examples // 10), stateful_step_count=25)
    run_state_machine_as_test(Stories, settings=stories)  # type: ignore[no-untyped-call]
