"""Compare nsqlake.client with pynsq, ansq and gnsq on one nsqd; `python -m bench.clients.compare`.

Each library runs in a process of its own, in turn, against the same broker. The others are installed into a
virtual environment of their own, made when it is missing.
"""

import argparse
import statistics
import subprocess
import sys
import venv
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from bench.broker import Broker
from bench.compare import OURS
from bench.load.connection import connect, expect
from nsqlake.wire import commands

PROGRAMS = Path(__file__).parent
PEERS = ("pynsq", "ansq", "gnsq")
PACKAGES = ("pynsq==0.9.1", "ansq==0.3.0", "gnsq==1.0.2")
BODY = b"x" * 200
RUN_LIMIT_S = 120


class Question(NamedTuple):
    """What is measured: a program's argument, how many are outstanding, who can do it, and a goal or none."""

    name: str
    what: str
    outstanding: int
    messages: int
    peers: tuple[str, ...]
    goal: float | None


QUESTIONS = (
    Question("consume", "consume", 2500, 200_000, PEERS, 3.0),
    Question("consume, 100 in flight", "consume", 100, 100_000, PEERS, 3.0),
    Question("publish, 100 outstanding", "publish", 100, 100_000, PEERS, 3.0),
    Question("blocking publish, one by one", "publish-blocking", 1, 20_000, ("pynsq",), 2.0),
    # A socket with no reconnect, no deadline and no threads; to know what is left to gain.
    Question("blocking publish, pynsq's SyncConn", "publish-bare", 1, 20_000, ("pynsq",), None),
    Question("blocking publish, 1,000 outstanding", "publish-blocking", 1000, 100_000, ("pynsq",), 2.0),
)


def main(arguments: Sequence[str] | None = None) -> int:
    options = parse(arguments)
    python = peers_python(Path(options.venv))
    print(f"{'question':<38} {'nsqlake':>9} " + " ".join(f"{peer:>9}" for peer in PEERS) + "   ratio  goal")
    worst = 0
    for question in QUESTIONS:
        if options.only in question.name:
            rates = measure(question, python, options.rounds)
            ratio = rates["nsqlake"] / max(rates[peer] for peer in question.peers)
            shown = [
                f"{rates[peer]:>9,.0f}" if peer in rates else f"{'-':>9}" for peer in ("nsqlake", *PEERS)
            ]
            goal = f">= {question.goal:g}" if question.goal else "-"
            print(f"{question.name:<38} {' '.join(shown)} {ratio:>7.2f} {goal}", flush=True)
            worst |= ratio < (question.goal or 0.0)
    return int(worst)


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.clients.compare", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3, metavar="N", help="runs of each (default 3)")
    parser.add_argument("--only", default="", metavar="TEXT", help="questions whose name has this text")
    parser.add_argument(
        "--venv",
        default=".bench-peers",
        metavar="DIR",
        help="where the other libraries are (default %(default)s)",
    )
    return parser.parse_args(arguments)


def peers_python(directory: Path) -> str:
    python = directory / "bin" / "python"
    if not python.exists():
        print(f"installing {', '.join(PACKAGES)} into {directory}", file=sys.stderr)
        venv.create(directory, with_pip=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", *PACKAGES], check=True)
    return str(python)


def measure(question: Question, python: str, rounds: int) -> dict[str, float]:
    """Messages per second of each library: the median of its rounds, all of them on one broker in turn."""
    libraries = ("nsqlake", *question.peers)
    rates: dict[str, list[float]] = {library: [] for library in libraries}
    with Broker(OURS, [], None) as broker:
        for number in range(rounds):
            for library in libraries:
                topic = f"{library}_{number}"
                if question.what == "consume":
                    fill(broker, topic, question.messages)
                seconds = run(library, question, broker, topic, python)
                rates[library].append(question.messages / seconds)
    return {library: statistics.median(found) for library, found in rates.items()}


def fill(broker: Broker, topic: str, count: int) -> None:
    command = commands.mpub(topic, [BODY] * 200)
    with connect(broker.address) as connection:
        for _ in range(count // 200):
            connection.sendall(command)
            expect(connection, b"OK")


def run(library: str, question: Question, broker: Broker, topic: str, python: str) -> float:
    host, port = broker.address
    interpreter = sys.executable if library == "nsqlake" else python
    program = str(PROGRAMS / f"{library}_program.py")
    numbers = [str(question.messages), str(question.outstanding)]
    command = [interpreter, program, question.what, f"{host}:{port}", topic, *numbers]
    done = subprocess.run(command, capture_output=True, text=True, timeout=RUN_LIMIT_S, check=False)
    if done.returncode:
        raise SystemExit(f"{library} failed:\n{done.stderr}")
    return float(done.stdout.split()[-1])


if __name__ == "__main__":
    sys.exit(main())
