"""Power is lost after every single thing the storage does to the disk, and what is left is recovered.

`NSQLAKE_STATES=130000 pytest -s tests/crash/test_power_loss.py` looks at about that many states of the disk.
"""

from __future__ import annotations

import logging
import os
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache
from random import Random
from typing import NamedTuple

import pytest

from tests.crash.observation import Found, carried_over, check, observe
from tests.crash.promises import Promises
from tests.crash.sim_broker import SimBroker, empty_disk
from tests.crash.storage_scenarios import SCENARIOS, Scenario, go_on
from tests.fakes.power_loss import Disk, Order
from tests.fakes.sim_files import Create, Image, Op, SimFiles, Sync, SyncFailed

pytestmark = pytest.mark.slow

STATES = int(os.environ.get("NSQLAKE_STATES", "6000"))
SCENARIO = pytest.mark.parametrize("name", SCENARIOS)
ORDER = pytest.mark.parametrize("order", Order, ids=lambda order: order.name.lower())
_MOST_PER_MOMENT = 4096


@pytest.fixture(scope="module")
def counted() -> Iterator[Counter[str]]:
    """How many states were looked at, by the kind of test."""
    counts: Counter[str] = Counter()
    yield counts
    print(f"\npower losses: {counts.total()} {dict(counts)}")


@pytest.fixture(autouse=True)
def silence() -> Iterator[None]:
    """Every recovery says what it repaired."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def play(scenario: Scenario, image: Image, promises: Promises | None = None) -> SimBroker:
    broker = SimBroker(SimFiles(image), promises)
    try:
        scenario(broker)
    finally:
        broker.close()
    assert not broker.broker.broken
    return broker


@cache
def played(name: str) -> SimBroker:
    return play(SCENARIOS[name], empty_disk())


class Moment(NamedTuple):
    """A power loss: at which point of the trace, and what the disk holds after it."""

    when: int
    image: Image
    origin: str


def moments(
    start: Image, trace: list[Op], order: Order, *, limit: int, seed: str, marks: Sequence[int] = ()
) -> Iterator[Moment]:
    """All power losses there can be, or `limit` of them from all over the trace.

    `marks` are the times at which more is promised: between two of them equal images are the same case.
    """
    seen: set[tuple[int, int]] = set()
    per_moment = max(2, limit // (len(trace) + 1))
    while len(seen) < limit and per_moment <= _MOST_PER_MOMENT:
        fresh = {
            (moment.image.key(), bisect_right(marks, moment.when)): moment
            for moment in _every_moment(start, trace, order, per_moment, seed)
        }
        keys = sorted(fresh.keys() - seen, key=lambda key: fresh[key].when)
        if not keys:
            return
        if len(keys) > limit - len(seen):
            keys = Random(seed).sample(keys, limit - len(seen))
        seen.update(keys)
        yield from (fresh[key] for key in keys)
        per_moment *= 2


def _every_moment(
    start: Image, trace: list[Op], order: Order, per_moment: int, seed: str
) -> Iterator[Moment]:
    disk = Disk(start)
    for when in range(len(trace) + 1):
        if when:
            disk.step(trace[when - 1])
        origin = f"{seed} {order.name} {per_moment} {when}"
        for number, image in enumerate(disk.states(order, Random(origin), per_moment)):
            yield Moment(when, image, f"{origin} #{number}")


def examined(moment: Moment, promises: Promises, when: int) -> Found:
    try:
        found = observe(moment.image)
        check(found, promises, when)
    except BaseException as error:
        error.add_note(f"after the power loss {moment.origin}")
        raise
    return found


def budget(part: float) -> int:
    """How many states one test of a kind may look at."""
    return max(int(STATES * part / (len(SCENARIOS) * len(Order))), 15)


@ORDER
@SCENARIO
def test_what_was_promised_survives_a_power_loss_at_any_point(
    name: str, order: Order, counted: Counter[str]
) -> None:
    broker = played(name)
    files, promises = broker.files, broker.promises

    for moment in moments(
        files.image, files.trace, order, limit=budget(0.7), seed=name, marks=promises.marks()
    ):
        examined(moment, promises, moment.when)
        counted["once"] += 1


@ORDER
@SCENARIO
def test_recovery_that_loses_power_itself_is_repeated_with_the_same_result(
    name: str, order: Order, counted: Counter[str]
) -> None:
    broker = played(name)
    files, promises = broker.files, broker.promises
    firsts = moments(files.image, files.trace, order, limit=budget(0.2) // 8, seed=f"{name} twice")

    for first in firsts:
        found = examined(first, promises, first.when)
        for second in moments(first.image, found.trace, order, limit=8, seed=first.origin):
            again = examined(second, promises, first.when)
            assert contents(again) == contents(found), second.origin
            counted["in recovery"] += 1


def contents(found: Found) -> dict[str, object]:
    return {name: topic.messages for name, topic in found.topics.items()}


@ORDER
@SCENARIO
def test_a_broker_that_went_on_after_a_power_loss_survives_the_next(
    name: str, order: Order, counted: Counter[str]
) -> None:
    broker = played(name)
    files, promises = broker.files, broker.promises
    firsts = moments(files.image, files.trace, order, limit=budget(0.1) // 15, seed=f"{name} next")

    for seed, first in enumerate(firsts):
        expected = carried_over(promises, examined(first, promises, first.when), first.when)
        later = play(go_on(seed), first.image, expected)
        for second in moments(first.image, later.files.trace, order, limit=15, seed=first.origin):
            examined(second, later.promises, second.when)
            counted["next"] += 1


@pytest.mark.parametrize("lies_about_names", [False, True], ids=["contents", "names"])
@pytest.mark.parametrize("name", ["segments_roll", "journals", "topics_come_and_go", "restarts"])
def test_a_disk_that_does_not_sync_is_found_out(name: str, lies_about_names: bool) -> None:
    broker = played(name)
    files, promises = broker.files, broker.promises
    directories = {op.node for op in files.trace if isinstance(op, Create) and op.is_directory}
    lying = [
        SyncFailed(op.node) if isinstance(op, Sync) and (op.node in directories) == lies_about_names else op
        for op in files.trace
    ]
    lost_power = moments(files.image, lying, Order.PER_DIRECTORY, limit=2000, seed=name)

    with pytest.raises(AssertionError):
        all(examined(moment, promises, moment.when) for moment in lost_power)
