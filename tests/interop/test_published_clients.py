"""go-nsq, nsqjs and pynsq, as published, through each kind of connection."""

from __future__ import annotations

import os
from typing import Any

import pytest

from tests.interop.clients import CLIENTS, Client, ClientUnavailableError, Prepare
from tests.interop.contract import (
    DELAY_MS,
    MSG_TIMEOUT_MS,
    SCENARIOS,
    SINGLE,
    Run,
    Upgrades,
    fingerprints,
    has_messages,
    several_bodies,
)

pytestmark = pytest.mark.interop

CLOCK_SLACK_MS = 5  # the client's monotonic clock against the broker's wall clock, while it is being slewed

UPGRADES = {
    "plain": Upgrades(tls=False, snappy=False, deflate=False),
    "tls-snappy": Upgrades(tls=True, snappy=True, deflate=False),
    "tls-deflate": Upgrades(tls=True, snappy=False, deflate=True),
}


def attempts(observation: dict[str, Any]) -> list[int]:
    return [delivery["attempts"] for delivery in observation["deliveries"]]


@pytest.mark.skipif(os.environ.get("CI", "") in ("", "0", "false"), reason="only CI must have a toolchain")
def test_at_least_one_client_is_available_in_ci(prepare: Prepare) -> None:
    answers = [prepare(client) for client in CLIENTS]

    unavailable = [answer for answer in answers if isinstance(answer, ClientUnavailableError)]

    assert len(unavailable) < len(CLIENTS), "\n".join(map(str, unavailable))


def test_every_connection_is_upgraded_as_asked(run: Run, client: Client, mode: str) -> None:
    (user_agent,) = run.user_agents

    assert user_agent.startswith(f"{client.name}/")
    assert run.upgrades == {UPGRADES[mode]}


def test_single_and_several_messages_are_published(run: Run) -> None:
    observation = run.scenario("publish")

    assert observation["acknowledged"] == 2
    assert run.topics["publish"]["message_count"] == 1 + len(several_bodies())


def test_published_bodies_are_consumed_and_finished_intact(run: Run) -> None:
    observation = run.scenario("consume")

    received = sorted((delivery["bytes"], delivery["sha256"]) for delivery in observation["deliveries"])
    assert received == fingerprints([SINGLE.encode(), *several_bodies()])
    assert attempts(observation) == [1] * len(received)


def test_requeued_message_comes_back_after_its_delay(run: Run) -> None:
    observation = run.scenario("requeue")

    assert attempts(observation) == [1, 2]
    waited_ms = observation["deliveries"][1]["at_ms"] - observation["requeued_at_ms"]
    assert waited_ms >= DELAY_MS - CLOCK_SLACK_MS
    assert run.channel("requeue")["requeue_count"] == 1


def test_touched_message_outlives_its_timeout(run: Run) -> None:
    observation = run.scenario("touch")

    assert attempts(observation) == [1]
    assert run.channel("touch")["timeout_count"] == 0


def test_deferred_message_is_not_early(run: Run) -> None:
    observation = run.scenario("defer")

    assert attempts(observation) == [1]
    assert observation["deliveries"][0]["at_ms"] >= DELAY_MS - CLOCK_SLACK_MS


def test_message_without_answer_comes_back_after_its_timeout(run: Run) -> None:
    observation = run.scenario("timeout")

    assert attempts(observation) == [1, 2]
    assert observation["deliveries"][1]["at_ms"] >= MSG_TIMEOUT_MS - CLOCK_SLACK_MS
    assert run.channel("timeout")["timeout_count"] == 1


@pytest.mark.parametrize("scenario", [name for name in SCENARIOS if name != "publish"])
def test_nothing_is_left_in_the_channel(run: Run, scenario: str) -> None:
    assert not has_messages(run.channel(scenario))
