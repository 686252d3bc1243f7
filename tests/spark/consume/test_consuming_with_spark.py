"""mode=consume with Spark: from a channel to files, and through kills of the driver."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from nsqlake.testing.nsqd import NsqdFixture, running_nsqd
from tests.fakes.nsqd_process import wait_for
from tests.interop.clients import ClientUnavailableError
from tests.interop.go_processes import Running
from tests.interop.go_programs import build_programs
from tests.spark.conftest import JAVA_OPTIONS, make_slim_home
from tests.spark.support import ask, channel_depth, numbers, publish

pytestmark = pytest.mark.spark

LIMIT_S = 180


@pytest.fixture(scope="module")
def nsqd() -> Iterator[NsqdFixture]:
    with running_nsqd() as nsqd:
        yield nsqd


@pytest.fixture(scope="module")
def go_node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("go")
    try:
        programs = build_programs(folder)
    except ClientUnavailableError as error:
        pytest.skip(str(error))
    # It does not see that a consumer is gone: what that had comes again after its time.
    flags = (
        "--msg-timeout=10s",
        "--tcp-address=127.0.0.1:0",
        "--http-address=127.0.0.1:0",
        "--broadcast-address=127.0.0.1",
    )
    running = Running([programs.path("nsqd"), *flags, f"--data-path={folder}"], folder / "nsqd.log")
    try:
        running.wait_listening("TCP")
        yield running.wait_listening("HTTP")
    finally:
        running.stop()


def options(node: str, topic: str, folder: Path, **more: object) -> dict[str, str]:
    given = {"nsqd": node, "topic": topic, "channel": "spark", "mode": "consume", "walDir": folder / "wal"}
    return {name: str(value) for name, value in {**given, **more}.items()}


def in_flight(node: str, topic: str) -> int:
    (found,) = ask(node, "GET", "/stats", format="json", topic=topic)["topics"]
    return sum(channel["in_flight_count"] for channel in found["channels"])


def is_drained(node: str, topic: str) -> bool:
    return channel_depth(node, topic, "spark") + in_flight(node, topic) == 0


def consume(spark: SparkSession, given: dict[str, str], folder: Path) -> None:
    rows = spark.readStream.format("nsq").options(**given).load()
    writer = rows.writeStream.format("parquet").option("checkpointLocation", str(folder / "checkpoint"))
    query = writer.trigger(availableNow=True).start(str(folder / "table"))
    assert query.awaitTermination(LIMIT_S)
    assert query.exception() is None


def table(spark: SparkSession, folder: Path) -> list[bytes]:
    return sorted(bytes(row["body"]) for row in spark.read.parquet(str(folder / "table")).collect())


def test_what_our_nsqd_has_becomes_a_table(spark: SparkSession, nsqd: NsqdFixture, tmp_path: Path) -> None:
    node = nsqd.http_address
    publish(node, "ours", numbers(0, 1000))
    given = options(node, "ours", tmp_path, maxOffsetsPerTrigger=300)

    consume(spark, given, tmp_path)
    first = table(spark, tmp_path)
    publish(node, "ours", numbers(1000, 1500))
    consume(spark, given, tmp_path)

    assert first == sorted(numbers(0, 1000))
    assert table(spark, tmp_path) == sorted(numbers(0, 1500))
    wait_for(lambda: is_drained(node, "ours"))


@pytest.mark.interop
@pytest.mark.slow
def test_what_the_go_nsqd_has_becomes_a_table(spark: SparkSession, go_node: str, tmp_path: Path) -> None:
    publish(go_node, "theirs", numbers(0, 1000))
    given = options(go_node, "theirs", tmp_path, maxOffsetsPerTrigger=300)

    consume(spark, given, tmp_path)

    assert table(spark, tmp_path) == sorted(numbers(0, 1000))
    wait_for(lambda: is_drained(go_node, "theirs"))


def test_nothing_is_finished_before_spark_has_committed_it(
    spark: SparkSession, nsqd: NsqdFixture, tmp_path: Path
) -> None:
    node, gate = nsqd.http_address, tmp_path / "gate"
    publish(node, "held", numbers(0, 10))

    def hold(frame: object, number: int) -> None:
        wait_for(gate.exists, LIMIT_S)

    rows = spark.readStream.format("nsq").options(**options(node, "held", tmp_path)).load()
    writer = rows.writeStream.foreachBatch(hold).option("checkpointLocation", str(tmp_path / "checkpoint"))
    query = writer.start()
    try:
        wait_for((tmp_path / "checkpoint" / "offsets" / "0").exists, LIMIT_S)
        wait_for(lambda: in_flight(node, "held") == 10, LIMIT_S)
        gate.touch()
        wait_for(lambda: in_flight(node, "held") == 0, LIMIT_S)
        assert (tmp_path / "checkpoint" / "commits" / "0").exists()
    finally:
        gate.touch()
        query.stop()
    assert channel_depth(node, "held", "spark") == 0


def test_a_batch_read_is_refused_by_name(spark: SparkSession, nsqd: NsqdFixture, tmp_path: Path) -> None:
    frame = spark.read.format("nsq").options(**options(nsqd.http_address, "refused", tmp_path)).load()

    with pytest.raises(PySparkException, match="option mode 'consume': is for streams only"):
        frame.collect()


# Kills ------------------------------------------------------------------------------------------------


class Job:
    """The driver in a process of its own."""

    def __init__(self, folder: Path, given: dict[str, str]) -> None:
        self.folder, self._options = folder, given
        (folder / "home").mkdir()
        self._home = make_slim_home(folder / "home")

    @contextmanager
    def run(self) -> Iterator["subprocess.Popen[bytes]"]:
        job = {
            "options": self._options,
            "checkpoint": str(self.folder / "checkpoint"),
            "table": str(self.folder / "table"),
        }
        environment = {
            **os.environ,
            "SPARK_HOME": str(self._home),
            "PYSPARK_PYTHON": sys.executable,
            "PYSPARK_SUBMIT_ARGS": f"--driver-memory 1g --driver-java-options '{JAVA_OPTIONS}' pyspark-shell",
            "PYTHONPATH": os.pathsep.join(str(Path(__file__).parents[3] / part) for part in ("src", ".")),
        }
        command = [sys.executable, "-m", "tests.spark.consume.consume_job", json.dumps(job)]
        with (self.folder / "job.log").open("ab") as log:
            process = subprocess.Popen(
                command,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        try:
            yield process
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    @property
    def log(self) -> str:
        return (self.folder / "job.log").read_text(errors="replace")[-5000:]

    def count(self, name: str) -> int:
        """How many batches there are in a log of the checkpoint."""
        folder = self.folder / "checkpoint" / name
        return len(list(folder.glob("[0-9]*"))) if folder.exists() else 0

    def rows(self) -> list[tuple[str, bytes]]:
        """As Spark sees the table: by its list of files, which a killed batch is not in."""
        names: list[str] = []
        for entry in (self.folder / "table" / "_spark_metadata").iterdir():
            if not entry.name.startswith("."):
                lines = entry.read_text().splitlines()[1:]
                names += [json.loads(line)["path"].removeprefix("file://") for line in lines]
        tables = [pq.read_table(name, columns=["id", "body"]) for name in dict.fromkeys(names)]
        return [(row["id"], row["body"]) for found in tables for row in found.to_pylist()]


@pytest.mark.unsteady
@pytest.mark.slow
@pytest.mark.parametrize(("kind", "moments"), [("ours", ("offsets", "commits")), ("go", ("offsets",))])
def test_kills_of_the_driver_lose_nothing(
    kind: str, moments: tuple[str, ...], nsqd: NsqdFixture, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    node = nsqd.http_address if kind == "ours" else request.getfixturevalue("go_node")
    topic, count = f"kills_{kind}", 8_000
    for start in range(0, count, 1000):
        publish(node, topic, numbers(start, start + 1000))
    job = Job(tmp_path, options(node, topic, tmp_path, maxOffsetsPerTrigger=500))

    for log in moments:
        with job.run() as process:
            before = job.count(log)
            wait_for(lambda: job.count(log) > before + 1 or process.poll() is not None, LIMIT_S, 0.002)  # noqa: B023
            assert process.poll() is None, job.log
    with job.run() as process:
        wait_for(lambda: is_drained(node, topic) or process.poll() is not None, LIMIT_S, 0.1)
        assert process.poll() is None, job.log

    rows = job.rows()
    assert {body for _, body in rows} == set(numbers(0, count))
    assert len({id_ for id_, _ in rows}) == count
    assert len(rows) == count, "deliveries that came again were known"
