"""The rules of `BrokerAgainstModel` in uniformly random order: hypothesis shrinks well but repeats itself.

A failing walk is named by its seed and is the same whenever it is run again. `NSQLAKE_STEPS` and
`NSQLAKE_SEED` (the first seed) choose how many steps are walked and where.
"""

import os
from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from tests.nsqd.core.harness import SECOND_NS
from tests.nsqd.core.test_broker_against_model import BrokerAgainstModel

STEPS = int(os.environ.get("NSQLAKE_STEPS", "4500"))
FIRST_SEED = int(os.environ.get("NSQLAKE_SEED", "0"))
STEPS_PER_WALK = 300
WALKS = max(1, STEPS // STEPS_PER_WALK)

DELAYS_NS = [1, SECOND_NS, 5 * SECOND_NS, 40 * SECOND_NS]
Arguments = Callable[[Random], dict[str, Any]]


def pick(random: Random) -> int:
    return random.randrange(2**16)


def bodies(random: Random) -> list[bytes]:
    return [random.randbytes(random.randint(1, 30)) for _ in range(random.randint(1, 8))]


def only_pick(random: Random) -> dict[str, Any]:
    return {"pick": pick(random)}


def nothing(_random: Random) -> dict[str, Any]:
    return {}


STEP_ARGUMENTS: dict[str, tuple[int, Arguments]] = {
    "pub": (4, lambda r: {"body": r.randbytes(r.randint(1, 30)), "hands_over": r.random() < 0.5}),
    "mpub_equal": (3, lambda r: {"count": r.randint(1, 40)}),
    "mpub_mixed": (3, lambda r: {"bodies": bodies(r)}),
    "dpub": (3, lambda r: {"bodies": bodies(r), "delay_ns": r.choice(DELAYS_NS)}),
    "create_channel": (2, lambda r: {"name": r.choice(["a", "b.c"])}),
    "ready": (3, lambda r: {"pick": pick(r), "count": r.choice([0, 1, 3, 20, 2500])}),
    "disconnect": (1, only_pick),
    "stall": (1, lambda r: {"pick": pick(r), "is_writable": r.random() < 0.7}),
    "pump": (6, only_pick),
    "pump_until_quiet": (3, only_pick),
    "finish_the_only_one_and_take_the_next": (2, only_pick),
    "fin_of_what_was_handed_out_last": (3, only_pick),
    "fin": (
        8,
        lambda r: {
            "pick": pick(r),
            "skip": r.randint(0, 5),
            "count": r.randint(1, 60),
            "seed": r.choice([None, pick(r)]),
            "writes": r.random() < 0.3,
        },
    ),
    "fin_of_a_run_with_a_message_that_is_not_held": (
        1,
        lambda r: {"pick": pick(r), "count": r.randint(0, 10), "stranger": pick(r)},
    ),
    "command_for_a_message_that_is_not_held": (
        1,
        lambda r: {"pick": pick(r), "stranger": pick(r), "command": r.choice(["fin", "req", "touch"])},
    ),
    "req": (4, lambda r: {"pick": pick(r), "which": pick(r), "delay_ns": r.choice([0, *DELAYS_NS])}),
    "touch": (3, lambda r: {"pick": pick(r), "which": pick(r)}),
    "time_passes": (2, lambda r: {"elapsed_ns": r.choice([1, SECOND_NS // 2, SECOND_NS, 3 * SECOND_NS])}),
    "time_passes_until_something_is_due": (3, nothing),
    "pause_channel": (1, lambda r: {"paused": r.random() < 0.4, "pick": pick(r)}),
    "pause_topic": (1, nothing),
    "unpause_topic": (1, nothing),
    "empty_topic": (1, nothing),
    "empty_or_delete_channel": (1, lambda r: {"pick": pick(r), "deletes": r.random() < 0.5}),
    "seek": (2, lambda r: {"pick": pick(r), "where": pick(r)}),
    "seek_to_a_time": (1, lambda r: {"where": pick(r)}),
    "commit": (2, lambda r: {"pick": pick(r), "where": pick(r), "writes": r.random() < 0.5}),
    "cancel_deferred": (
        1,
        lambda r: {"pick": pick(r), "which": pick(r), "cancels_all": r.random() < 0.3},
    ),
    "peek": (2, lambda r: {"pick": pick(r), "where": pick(r), "count": r.randint(1, 50)}),
    "retire": (3, nothing),
    "write_journal": (
        3,
        lambda r: {"pick": pick(r), "syncs": r.random() < 0.5, "rotates": r.random() < 0.2},
    ),
    "restart": (1, nothing),
    "crash": (
        2,
        lambda r: {
            "how": r.choice(["torn block", "torn journal", "torn snapshot", "cut log"]),
            "nbytes": r.randint(1, 150),
            "pick": pick(r),
        },
    ),
}


def test_every_rule_is_walked() -> None:
    machine = BrokerAgainstModel()

    assert {rule.function.__name__ for rule in machine.rules} == set(STEP_ARGUMENTS)


@pytest.mark.parametrize("seed", range(FIRST_SEED, FIRST_SEED + WALKS))
def test_random_walk_agrees_with_the_model(seed: int) -> None:
    random, machine = Random(seed), BrokerAgainstModel()
    names = random.choices(
        list(STEP_ARGUMENTS), [weight for weight, _ in STEP_ARGUMENTS.values()], k=STEPS_PER_WALK
    )
    machine.begin(memory=random.choice([0, 5, 1000]), file_bytes=random.choice([200, 1500, 10**6]))

    for name in names:
        getattr(machine, name)(**STEP_ARGUMENTS[name][1](random))
        machine.counts_agree()
        machine.consumers_agree()
        machine.alarms_are_early_enough()

    machine.teardown()
