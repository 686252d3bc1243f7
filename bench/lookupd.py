"""Fill an nsqlookupd and ask it while it is busy; run as `python -m bench.lookupd`.

Many nsqds register the same topics and channels, then ping and register again; meanwhile consumers look
topics up, and now and then somebody asks for everything.
"""

import argparse
import json
import multiprocessing
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import uvloop
from rich.console import Console
from rich.table import Table

from bench.broker import Broker
from bench.load.errors import LoadError
from bench.load.http_client import HttpClient, RawReader
from bench.load.lookup import Size, ask_lookups, play_nodes
from bench.machine import machine_facts, version_of

OURS = (sys.executable, "-m", "nsqlake.apps.nsqlookupd")
LARGE = ("/topics", "/nodes", "/debug")
REGISTER_LIMIT_SECONDS = 200
GOAL_P99_MS = 5.0
WARM_UP_SECONDS = 1.0
MB = 1024 * 1024


@dataclass
class Result:
    """What one nsqlookupd did; milliseconds are of /lookup unless the name says otherwise."""

    register_seconds: float = 0.0
    registrations: int = 0
    memory_mb: float = 0.0
    p50_ms: float = 0.0
    p99_ms: float = 0.0
    max_ms: float = 0.0
    reregistered_per_second: float = 0.0
    topics_ms: float = 0.0
    nodes_ms: float = 0.0
    debug_ms: float = 0.0
    debug_mb: float = 0.0
    max_ms_beside_topics: float = 0.0
    max_ms_beside_nodes: float = 0.0
    max_ms_beside_debug: float = 0.0
    peak_memory_mb: float = 0.0


class Lookupd(Broker):
    """A running nsqlookupd."""

    def __init__(self, command: Sequence[str]) -> None:
        super().__init__(command, (), None)
        addresses = ["--tcp-address=127.0.0.1:0", "--http-address=127.0.0.1:0"]
        self._arguments = [*command, *addresses, "--log-level=info"]


@contextmanager
def running_nodes(lookupd: Lookupd, size: Size, per_second: int) -> Any:
    """Yields how long registering took; whoever leaves gets what was registered again since."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(
        target=play_nodes, args=(lookupd.address, size, per_second, theirs), daemon=True
    )
    process.start()
    try:
        if not ours.poll(REGISTER_LIMIT_SECONDS):
            raise LoadError("registering took too long")
        yield ours, ours.recv()
    finally:
        process.kill()
        process.join()


def measure(command: Sequence[str], arguments: argparse.Namespace) -> Result:
    size = Size(arguments.nodes, arguments.topics, arguments.channels)
    result = Result()
    with Lookupd(command) as lookupd, running_nodes(lookupd, size, arguments.registers) as (control, seconds):
        result.register_seconds = seconds
        client = HttpClient(lookupd.http_address)
        result.registrations = count_registrations(client, size)
        client.close()
        result.memory_mb = lookupd.rss_bytes() / MB
        uvloop.run(ask_lookups(lookupd.http_address, size, arguments.lookups, WARM_UP_SECONDS))
        latencies = uvloop.run(ask_lookups(lookupd.http_address, size, arguments.lookups, arguments.seconds))
        result.p50_ms, result.p99_ms, result.max_ms = percentiles_ms(latencies)
        for target in arguments.large.split(","):
            measure_large(lookupd, size, target, arguments, result)
        result.peak_memory_mb = lookupd.rss_bytes() / MB
        control.send("stop")
        result.reregistered_per_second = control.recv()
    return result


def count_registrations(client: HttpClient, size: Size) -> int:
    """Producers of every topic and channels of every topic, as the API tells them."""
    if len(client.get_json("/topics")["topics"]) != size.topics:
        raise LoadError("not every topic was registered")
    found = 0
    for number in range(0, size.topics, max(1, size.topics // 100)):
        topic = client.get_json(f"/lookup?topic={size.topic(number)}")
        if (len(topic["producers"]), len(topic["channels"])) != (size.nodes, size.channels):
            raise LoadError(f"{size.topic(number)} is not registered whole")
    for node in client.get_json("/nodes")["producers"]:
        if len(node["topics"]) != size.topics:
            raise LoadError(f"{node['broadcast_address']} does not have every topic")
        found += len(node["topics"]) * (1 + size.channels)
    return found


def measure_large(
    lookupd: Lookupd, size: Size, target: str, arguments: argparse.Namespace, result: Result
) -> None:
    """How long the whole answer takes, and how long a lookup may have to wait meanwhile."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    reader = context.Process(
        target=read_now_and_then, args=(lookupd.http_address, target, theirs), daemon=True
    )
    reader.start()
    ours.recv()
    latencies = uvloop.run(ask_lookups(lookupd.http_address, size, arguments.lookups, arguments.seconds))
    ours.send("stop")
    seconds, count = ours.recv()
    reader.join()
    name = target.strip("/")
    setattr(result, f"{name}_ms", statistics.median(seconds) * 1000)
    setattr(result, f"max_ms_beside_{name}", max(latencies) * 1000)
    if name == "debug":
        result.debug_mb = count / MB


def read_now_and_then(address: tuple[str, int], target: str, control: Any) -> None:
    """In a process of its own: at most one such answer a second."""
    reader, seconds, count = ReaderOfAnything(address), [], 0
    control.send("ready")
    while not control.poll(1.0):
        began = time.monotonic()
        count = reader.read(target)
        seconds.append(time.monotonic() - began)
    control.send((seconds, count))


class ReaderOfAnything:
    """Ours has a length, Go's large answers come in chunks."""

    def __init__(self, address: tuple[str, int]) -> None:
        self._raw, self._client = RawReader(address), HttpClient(address)
        self._is_chunked = False

    def read(self, target: str) -> int:
        if not self._is_chunked:
            try:
                return self._raw.read(target)[0]
            except KeyError:
                self._is_chunked = True
        return len(self._client.get(target))


def percentiles_ms(latencies: list[float]) -> tuple[float, float, float]:
    ordered = sorted(latencies)
    p99 = ordered[min(len(ordered) - 1, int(len(ordered) * 0.99))]
    return statistics.median(ordered) * 1000, p99 * 1000, ordered[-1] * 1000


def show(results: dict[str, Result]) -> None:
    table = Table("", *results)
    for name in asdict(Result()):
        values = [getattr(result, name) for result in results.values()]
        table.add_row(
            name, *(f"{value:,.2f}" if isinstance(value, float) else f"{value:,}" for value in values)
        )
    Console().print(table)


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m bench.lookupd", description=__doc__)
    add: Callable[..., Any] = parser.add_argument
    add("--peer-nsqlookupd", metavar="PATH", help="another nsqlookupd to measure in the same run")
    add("--nodes", type=int, default=20, help="nsqds that register (default 20)")
    add("--topics", type=int, default=10_000, help="topics that each of them has (default 10000)")
    add("--channels", type=int, default=5, help="channels of each topic (default 5)")
    add("--lookups", type=int, default=200, help="lookups a second (default 200)")
    add("--registers", type=int, default=1_000, help="registrations repeated a second (default 1000)")
    add("--seconds", type=float, default=8.0, help="of each measurement (default 8)")
    add("--large", default=",".join(LARGE), help="large answers to ask for (default all)")
    add("--json", metavar="FILE", help="write everything measured there")
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> int:
    arguments = parse(argv)
    commands: dict[str, Sequence[str]] = {"ours": OURS}
    if arguments.peer_nsqlookupd:
        commands["peer"] = (arguments.peer_nsqlookupd,)
    results = {name: measure(command, arguments) for name, command in commands.items()}
    show(results)
    if arguments.json:
        facts = {
            "machine": machine_facts(None),
            "versions": {name: version_of(command) for name, command in commands.items()},
            "arguments": vars(arguments),
            "results": {name: asdict(result) for name, result in results.items()},
        }
        Path(arguments.json).write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")
    return 0 if results["ours"].p99_ms < GOAL_P99_MS else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except LoadError as error:
        sys.exit(f"bench: {error}")
