"""Measure topics to DataFrames and back; run as `python -m bench.spark`.

The source is compared with one that hands out the same Arrow batches from memory, in turn in one session.
The figures that have no such peer have absolute goals.
"""

import argparse
import json
import logging
import os
import statistics
import struct
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from rich.console import Console
from rich.table import Table

from bench.broker import Broker
from bench.load.errors import LoadError
from bench.machine import machine_facts
from bench.spark_memory import MemorySource
from nsqlake.spark import build_session
from nsqlake.spark.blocks import find_runs
from nsqlake.spark.decode import decode_run
from nsqlake.spark.log_client import LogClient
from nsqlake.spark.node_client import NodeClient
from nsqlake.spark.offsets import SourceKey
from nsqlake.spark.options import COLUMNS, Access
from nsqlake.spark.schema import arrow_schema

OURS = (sys.executable, "-m", "nsqlake.apps.nsqd")
TOPIC = "bench"
BODY_BYTES = 200
ROWS_PER_MPUB = 1000
PARTITIONS = 2
DECODE_SECONDS = 2.0
CONSUME_RDY = 50_000
LIMIT_SECONDS = 300


@dataclass
class Result:
    """Rates are rows a second; `ceiling` is that of the batches from memory."""

    case: str
    rate: float
    ceiling: float | None = None
    goal: float | None = None  # of the ratio where there is a ceiling, else of the rate

    @property
    def ratio(self) -> float | None:
        return None if self.ceiling is None else self.rate / self.ceiling

    @property
    def verdict(self) -> str:
        if self.goal is None:
            return ""
        return "goal" if (self.rate if self.ratio is None else self.ratio) >= self.goal else "below"


class Bench:
    def __init__(self, spark: SparkSession, broker: Broker, rows: int, rounds: int, folder: Path) -> None:
        self._spark, self._rows, self._rounds, self._folder = spark, rows, rounds, folder
        self._node = "{}:{}".format(*broker.http_address)
        self._access = Access(nsqd=(self._node,))
        self._made = 0

    def fill(self, topic: str, rows: int) -> None:
        client = NodeClient(self._node, self._access)
        for _ in range(rows // ROWS_PER_MPUB):
            bodies = os.urandom(BODY_BYTES // 2 * ROWS_PER_MPUB).hex().encode()
            pieces = [bodies[at : at + BODY_BYTES] for at in range(0, len(bodies), BODY_BYTES)]
            body = struct.pack(">i", len(pieces)) + b"".join(
                struct.pack(">i", len(piece)) + piece for piece in pieces
            )
            client.request("POST", "/mpub", {"topic": topic, "binary": "true"}, body)
        client.close()

    # The source ---------------------------------------------------------------------------------------

    def source(self, case: str, write: Callable[[DataFrame], None]) -> Result:
        frames = {name: self._frame(name) for name in ("nsq", MemorySource.name())}
        seconds: dict[str, list[float]] = {name: [] for name in frames}
        for number in range(-2, self._rounds):  # the first two warm up
            for name, frame in frames.items():
                began = time.perf_counter()
                write(frame)
                if number >= 0:
                    seconds[name].append(time.perf_counter() - began)
        ours, ceiling = (self._rows / statistics.median(taken) for taken in seconds.values())
        return Result(case, ours, ceiling, 0.8)

    def _frame(self, source: str) -> DataFrame:
        options = {"nsqd": self._node, "topic": TOPIC, "minPartitions": str(PARTITIONS)}
        return self._spark.read.format(source).options(**options).load()

    def write_nowhere(self, frame: DataFrame) -> None:
        frame.write.format("noop").mode("overwrite").save()

    def write_parquet(self, frame: DataFrame) -> None:
        frame.write.mode("overwrite").parquet(self._new_folder("parquet"))

    def _new_folder(self, name: str) -> str:
        self._made += 1
        return str(self._folder / f"{name}{self._made}")

    def decode(self) -> Result:
        client = LogClient(SourceKey(TOPIC, self._node), self._access)
        bounds = client.bounds()
        if bounds is None:
            raise LoadError("the topic is not there")
        raw = client.read(bounds.log, bounds.first, 32 * 1024 * 1024, skip_damaged=False)
        schema, rows, began = arrow_schema(COLUMNS), 0, time.process_time()
        while time.process_time() - began < DECODE_SECONDS:
            for run in find_runs(raw.data, raw.salt, bounds.first, raw.next):
                batch = decode_run(
                    run,
                    start=bounds.first,
                    end=raw.next,
                    schema=schema,
                    id_base=raw.id_base,
                    topic=TOPIC,
                    node=self._node,
                )
                rows += batch.num_rows
        return Result("decode, one core", rows / (time.process_time() - began), goal=10e6)

    # The sink -----------------------------------------------------------------------------------------

    def sink_batch(self) -> Result:
        body = f"rpad(cast(id as string), {BODY_BYTES}, 'x')"
        frame = self._spark.range(0, self._rows, 1, PARTITIONS).selectExpr(f"{body} as body")
        seconds: list[float] = []
        for _ in range(self._rounds + 1):
            began = time.perf_counter()
            frame.write.format("nsq").options(nsqd=self._node, topic="sink-batch").mode("append").save()
            seconds.append(time.perf_counter() - began)
        return Result("sink, batch", self._rows / statistics.median(seconds[1:]), goal=300e3)

    def sink_stream(self) -> Result:
        """A batch is `rows` rows in two files; the first one warms up."""
        body = f"rpad(cast(id as string), {BODY_BYTES}, 'x')"
        files = self._new_folder("input")
        for _ in range(self._rounds + 1):
            rows = self._spark.range(0, self._rows, 1, PARTITIONS).selectExpr(f"{body} as body")
            rows.write.mode("append").parquet(files)
        stream = self._spark.readStream.schema("body string").option("maxFilesPerTrigger", PARTITIONS)
        writer = (
            stream.parquet(files)
            .writeStream.format("nsq")
            .options(nsqd=self._node, topic="sink-stream", checkpointLocation=self._new_folder("checkpoint"))
        )
        return Result("sink, exactly once", _steady_rate(_run(writer), skip=1), goal=300e3)

    # mode=consume -------------------------------------------------------------------------------------

    def consume(self, case: str, rows: int, **options: object) -> Result:
        topic = f"consumed{self._made}"
        self.fill(topic, rows)
        given = {
            "nsqd": self._node,
            "topic": topic,
            "channel": "spark",
            "mode": "consume",
            "walDir": self._new_folder("wal"),
            **{name: str(value) for name, value in options.items()},
        }
        frame = self._spark.readStream.format("nsq").options(**given).load()
        writer = frame.writeStream.format("noop").option("checkpointLocation", self._new_folder("checkpoint"))
        return Result(case, _steady_rate(_run(writer), skip=2))


def _run(writer: Any) -> StreamingQuery:
    query: StreamingQuery = writer.trigger(availableNow=True).start()
    if not query.awaitTermination(LIMIT_SECONDS):
        query.stop()
        raise LoadError("a stream did not end")
    return query


def _steady_rate(query: StreamingQuery, skip: int) -> float:
    """Rows by the time of the batches they were in, without the first ones."""
    batches = [progress for progress in query.recentProgress if progress.numInputRows][skip:]
    if not batches:
        raise LoadError("too few batches to measure")
    milliseconds = sum(int(progress.durationMs["triggerExecution"]) for progress in batches)
    return sum(progress.numInputRows for progress in batches) / milliseconds * 1000


@contextmanager
def running(arguments: argparse.Namespace) -> Iterator[Bench]:
    flags = (f"--max-rdy-count={2 * CONSUME_RDY}", "--max-txn-bytes=10000000000")
    conf = {"spark.driver.memory": "3g", "spark.sql.streaming.numRecentProgressUpdates": "10000"}
    os.environ["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
    with (
        Broker(OURS, flags, arguments.data_root) as broker,
        tempfile.TemporaryDirectory(prefix="nsqlake-bench-", dir=arguments.data_root) as folder,
    ):
        spark = build_session("bench", master=f"local[{PARTITIONS}]", conf=conf)
        spark.sparkContext.setLogLevel("ERROR")
        spark.dataSource.register(MemorySource)
        try:
            yield Bench(spark, broker, arguments.rows, arguments.rounds, Path(folder))
        finally:
            spark.stop()


def cases(bench: Bench) -> dict[str, Callable[[], Result]]:
    many = f"mode=consume, {2 * CONSUME_RDY:,} in flight"
    return {
        "decode": bench.decode,
        "noop": lambda: bench.source("source -> noop", bench.write_nowhere),
        "parquet": lambda: bench.source("source -> parquet", bench.write_parquet),
        "sink-batch": bench.sink_batch,
        "sink-stream": bench.sink_stream,
        "consume": lambda: bench.consume("mode=consume, 2,500 in flight", 100_000),
        "consume-many": lambda: bench.consume(many, 12 * CONSUME_RDY, maxOffsetsPerTrigger=CONSUME_RDY),
    }


def measure(bench: Bench, arguments: argparse.Namespace) -> Iterator[Result]:
    bench.fill(TOPIC, arguments.rows)
    for name, run in cases(bench).items():
        if not arguments.only or name in arguments.only.split(","):
            yield run()


def show(results: Sequence[Result]) -> None:
    table = Table("case", "rows/s", "from memory", "ratio", "goal", "verdict")
    for result in results:
        goal = "" if result.goal is None else f">= {result.goal:,g}"
        ceiling = "" if result.ceiling is None else f"{result.ceiling:,.0f}"
        ratio = "" if result.ratio is None else f"{result.ratio:.2f}"
        table.add_row(result.case, f"{result.rate:,.0f}", ceiling, ratio, goal, result.verdict)
    Console().print(table)


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m bench.spark", description=__doc__)
    add: Callable[..., Any] = parser.add_argument
    add(
        "--rows",
        type=int,
        default=1_000_000,
        help="of 200 B in the topic and in each write (default 1000000)",
    )
    add("--rounds", type=int, default=3, help="of each measurement; medians are shown (default 3)")
    add("--only", metavar="NAME,...", help="these cases (default all)")
    add("--data-root", metavar="DIR", help="where nsqd and Spark get their folders")
    add("--json", metavar="FILE", help="write everything measured there")
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> int:
    arguments = parse(argv)
    logging.basicConfig(level=logging.WARNING)
    with running(arguments) as bench:
        results: list[Result] = []
        for result in measure(bench, arguments):
            ceiling = "" if result.ceiling is None else f", {result.ceiling:,.0f} from memory"
            print(f"{result.case}: {result.rate:,.0f} rows/s{ceiling}", file=sys.stderr, flush=True)
            results.append(result)
    show(results)
    if arguments.json:
        facts = {
            "machine": machine_facts(arguments.data_root),
            "arguments": vars(arguments),
            "results": [asdict(result) for result in results],
        }
        Path(arguments.json).write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except LoadError as error:
        sys.exit(f"bench: {error}")
