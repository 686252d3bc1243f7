"""What is asked of a client program and what it answers: the contract of README.md."""

from __future__ import annotations

import hashlib
import json
import subprocess
import time
from typing import Any, NamedTuple

from tests.interop.broker import Broker

MODES = ("plain", "tls-snappy", "tls-deflate")
SCENARIOS = ("publish", "consume", "requeue", "touch", "defer", "timeout")
CHANNEL = "tests"

SINGLE = "one message"
SEVERAL = ("first of several", "zweite Grüße ✓")
LARGE_BYTES = 200_000  # more than three snappy chunks
DELAY_MS = 1_000
MSG_TIMEOUT_MS = 1_000  # the least nsqd accepts
HOLD_MS = 6_000  # the Go nsqd looks for timeouts in a new channel only after up to 5 s
LIMIT_MS = 20_000
SETTLE_LIMIT_SECONDS = 2


class Upgrades(NamedTuple):
    tls: bool
    snappy: bool
    deflate: bool


class Run(NamedTuple):
    """One client program played every scenario in one mode."""

    user_agents: set[str]
    upgrades: set[Upgrades]  # as the broker saw its connections while they lived
    answer: dict[str, Any]
    topics: dict[str, dict[str, Any]]  # the broker's statistics afterwards, by scenario

    def scenario(self, name: str) -> dict[str, Any]:
        observation: dict[str, Any] = self.answer["scenarios"][name]
        assert observation["error"] == ""
        return observation

    def channel(self, scenario: str) -> dict[str, Any]:
        channel: dict[str, Any] = self.topics[scenario]["channels"][0]
        return channel


def several_bodies() -> list[bytes]:
    """The texts, then a body that compresses well and one that does not compress at all."""
    state, noise = 1, bytearray()
    for _ in range(LARGE_BYTES):
        state = (state * 1664525 + 1013904223) & 0xFFFFFFFF
        noise.append(state >> 24)
    return [*(text.encode() for text in SEVERAL), b"nsq " * (LARGE_BYTES // 4), bytes(noise)]


def fingerprints(bodies: list[bytes]) -> list[tuple[int, str]]:
    return sorted((len(body), hashlib.sha256(body).hexdigest()) for body in bodies)


def request(broker: Broker, topic: str, mode: str) -> dict[str, Any]:
    return {
        "address": broker.tcp_address,
        "topic": topic,
        "channel": CHANNEL,
        "mode": mode,
        "ca_file": broker.ca_file,
        "scenarios": SCENARIOS,
        "single": SINGLE,
        "several": SEVERAL,
        "large_bytes": LARGE_BYTES,
        "delay_ms": DELAY_MS,
        "msg_timeout_ms": MSG_TIMEOUT_MS,
        "hold_ms": HOLD_MS,
        "limit_ms": LIMIT_MS,
    }


def play(command: list[str], broker: Broker, topic: str, mode: str) -> Run:
    """Run one client program and watch its connections from the broker's side meanwhile."""
    argument = json.dumps(request(broker, topic, mode))
    user_agents: set[str] = set()
    upgrades: set[Upgrades] = set()
    with subprocess.Popen([*command, argument], stdout=subprocess.PIPE, text=True) as process:
        deadline = time.monotonic() + 3 * LIMIT_MS / 1000
        while process.poll() is None:
            if time.monotonic() > deadline:
                process.kill()
            for connection in connections(broker.stats(), topic):
                user_agents.add(connection["user_agent"])
                upgrades.add(Upgrades(*(connection[upgrade] for upgrade in Upgrades._fields)))
            time.sleep(0.1)
        assert process.stdout is not None
        answer = process.stdout.read()
    if process.returncode != 0:
        raise RuntimeError(f"{command} ended with {process.returncode} and wrote {answer!r}")
    return Run(user_agents, upgrades, json.loads(answer), settled_topics(broker, topic))


def settled_topics(broker: Broker, prefix: str) -> dict[str, dict[str, Any]]:
    """By scenario, once the broker has taken the last answers or had the time for it."""
    deadline = time.monotonic() + SETTLE_LIMIT_SECONDS
    while True:
        topics = broker.topics(prefix)
        waiting = [topic for topic in topics.values() if any(map(has_messages, topic["channels"]))]
        if not waiting or time.monotonic() > deadline:
            return {name.rpartition(".")[2]: topic for name, topic in topics.items()}
        time.sleep(0.05)


def has_messages(channel: dict[str, Any]) -> bool:
    return any(channel[count] for count in ("depth", "in_flight_count", "deferred_count"))


def connections(stats: dict[str, Any], prefix: str) -> list[dict[str, Any]]:
    """Those of consumers and producers of the topics that begin with `prefix`."""
    topics = [topic for topic in stats["topics"] or () if topic["topic_name"].startswith(prefix)]
    consumers = [client for topic in topics for channel in topic["channels"] for client in channel["clients"]]
    producers = [
        producer
        for producer in stats["producers"] or ()
        if any(published["topic"].startswith(prefix) for published in producer.get("pub_counts") or ())
    ]
    return consumers + producers
