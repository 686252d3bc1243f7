"""Every single call of the storage fails once, in every story: what was answered still holds.

`NSQLAKE_FAULTS=100000 pytest -s tests/crash/test_simulated_faults.py` lets that many calls fail, at most all.
"""

from __future__ import annotations

import errno
import logging
import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import Any

import pytest

from nsqlake.nsqd.broker import CreationError
from nsqlake.topiclog import TopicLogError
from tests.crash.observation import check, observe
from tests.crash.sim_broker import SimBroker, empty_disk
from tests.crash.storage_scenarios import SCENARIOS
from tests.fakes.power_loss import Disk, Order
from tests.fakes.sim_files import SimFiles

pytestmark = pytest.mark.slow

FAULTS = int(os.environ.get("NSQLAKE_FAULTS", "1200"))
WRITES = frozenset({"write", "writev"})
SYNCS = frozenset({"fsync", "fdatasync", "sync_dir"})
GROWING = WRITES | SYNCS | {"create", "mkdir", "rename"}
# Reading is left out: a block that cannot be read is skipped and reported as damage, on purpose.
ANY = GROWING | {"open", "ftruncate", "unlink", "rmdir", "listdir"}
Faults = tuple[int | None, ...]  # an error number, or None for a part of a write
KINDS: dict[str, tuple[frozenset[str], Faults]] = {
    "input_output_error": (ANY, (errno.EIO,)),
    "failing_sync": (SYNCS, (errno.EIO,)),
    "no_space": (GROWING, (errno.ENOSPC,)),
    "no_space_for_long": (GROWING, (errno.ENOSPC,) * 4),
    "half_a_write": (WRITES, (None,)),
    "half_a_write_then_no_space": (WRITES, (None, errno.ENOSPC)),
    "half_a_write_then_broken": (WRITES | {"ftruncate"}, (None, errno.EIO, errno.EIO)),
}
_PATIENCE = 6


@pytest.fixture(scope="module")
def counted() -> Iterator[Counter[str]]:
    """How many calls failed, by how."""
    counts: Counter[str] = Counter()
    yield counts
    print(f"\nfaults: {counts.total()} {dict(counts)}")


@pytest.fixture(autouse=True)
def silence() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


class Calls:
    """Counts the calls of some kinds, and strikes the n-th and those after it."""

    def __init__(self, kinds: frozenset[str], at: int = 0, faults: Faults = ()) -> None:
        self._kinds, self._at, self._faults = kinds, at, faults
        self.names: list[str] = []

    def __call__(self, name: str, _path: str) -> int | None:
        if name not in self._kinds:
            return None
        self.names.append(name)
        behind = len(self.names) - self._at
        if not self._at or not 0 <= behind < len(self._faults):
            return None
        fault = self._faults[behind]
        if fault is not None:
            raise OSError(fault, os.strerror(fault))
        return 100


class StruckBroker(SimBroker):
    """Goes on with what is possible when something failed, as the daemon does."""

    def _try(self, work: Callable[..., Any], *args: Any, **options: Any) -> Any:
        try:
            return work(*args, **options)
        except (OSError, TopicLogError, CreationError):
            return None

    def start(self) -> None:
        if not self._starts():
            self.files.before_call = None  # somebody mends the disk
            self.kill()
            super().start()

    def _starts(self) -> bool:
        """Whether the daemon runs, with every topic it should have."""
        try:
            super().start()
        except OSError:
            return False
        expected = {life.name for life in self.promises.topics if life.must_exist(self.now)}
        return not self.broker.broken and expected <= self.broker.topics.keys()

    def stop(self) -> bool:
        if not super().stop():
            for name in self.broker.topics:
                self._give_up_unsynced(name)
        return True

    def create_topic(self, name: str) -> None:
        for _ in range(_PATIENCE):
            if name not in self.broker.topics:
                self._try(super().create_topic, name)
        # Without room for it, an identity is durable only with the first message.
        self.life(name).uuid = b""

    def delete_topic(self, name: str) -> None:
        for _ in range(_PATIENCE):
            if name in self.broker.topics:
                self._try(super().delete_topic, name)

    def publish(self, name: str, sizes: Sequence[int], *, delay_ns: int = 0) -> int:
        return self._try(super().publish, name, sizes, delay_ns=delay_ns) or 0

    def sync(self, name: str) -> None:
        self._try(super().sync, name)
        if self.topic(name).failure:
            self._give_up_unsynced(name)

    def _give_up_unsynced(self, name: str) -> None:
        """The system may believe that what the failed sync was for is written: no later sync does it."""
        life = self.life(name)
        for at in life.known(self.now + 1):
            if at >= life.synced_below(self.now):
                life.dropped.setdefault(at, self.now)

    def retire(self, name: str) -> list[str]:
        return self._try(super().retire, name) or []

    def pause(self, name: str, paused: bool) -> None:
        self._try(super().pause, name, paused)

    def create_channel(self, name: str, channel: str) -> None:
        for _ in range(_PATIENCE):
            if channel not in self.topic(name).channels:
                self._try(super().create_channel, name, channel)

    def delete_channel(self, name: str, channel: str) -> None:
        self._try(super().delete_channel, name, channel)

    def empty_channel(self, name: str, channel: str) -> None:
        self._try(super().empty_channel, name, channel)

    def _settle_drops(self, name: str, channel: str) -> None:
        """A journal that cannot be read or synced lets finished messages come again."""

    def sync_journal(self, name: str, channel: str) -> None:
        if channel in self.topic(name).channels:
            super().sync_journal(name, channel)


def struck(name: str, calls: Calls) -> StruckBroker:
    files = SimFiles(empty_disk())
    files.before_call = calls
    broker = StruckBroker(files)
    try:
        SCENARIOS[name](broker)
    finally:
        broker.close()
    return broker


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", SCENARIOS)
def test_a_call_that_fails_costs_nothing_that_was_promised(
    name: str, kind: str, counted: Counter[str]
) -> None:
    calls, faults = KINDS[kind]
    struck(name, undisturbed := Calls(calls))
    count = len(undisturbed.names)
    random = Random(f"{name} {kind}")
    limit = max(FAULTS // (len(SCENARIOS) * len(KINDS)), 1)

    for at in sorted(random.sample(range(1, count + 1), min(limit, count))):
        try:
            broker = struck(name, Calls(calls, at, faults))
            check_after_kill(broker)
            check_after_power_loss(broker, random)
            counted[kind] += 1
        except BaseException as error:
            error.add_note(f"after {kind} of call {at}, {undisturbed.names[at - 1]}, in {name}")
            raise


def check_after_kill(broker: StruckBroker) -> None:
    """What was answered is there, synced or not: only the process is gone."""
    now = broker.now + 1
    for life in broker.promises.topics:
        life.synced.append((now, life.used_below(now)))
    check(observe(broker.files.volatile_image()), broker.promises, now)
    for life in broker.promises.topics:
        life.synced.pop()


def check_after_power_loss(broker: StruckBroker, random: Random) -> None:
    trace = broker.files.trace
    moments = sorted({random.randint(0, len(trace)), random.randint(0, len(trace)), len(trace)})
    disk = Disk(broker.files.image)
    for when in range(len(trace) + 1):
        if when:
            disk.step(trace[when - 1])
        if when in moments:
            for image in disk.states(random.choice(list(Order)), random, 3):
                check(observe(image), broker.promises, when)
