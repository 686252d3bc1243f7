"""Exactly once while tasks fail, and while the driver or nsqd is killed: every row is there, once."""

import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from nsqlake.spark.decisions import FILE_NAME
from tests.fakes.nsqd_process import NsqdProcess
from tests.spark.conftest import JAVA_OPTIONS, make_slim_home
from tests.spark.log_reading import read_topic

pytestmark = [pytest.mark.slow, pytest.mark.spark]

FILES, ROWS_PER_FILE = 10, 30_000
LIMIT_S = 240.0
TOPIC = "kills"


def body_of(number: int) -> str:
    return f"{number:08} {'x' * (number % 200)}"


class Bench:
    """Two nodes, files that become one batch each, and jobs that publish them."""

    def __init__(self, folder: Path, chance: random.Random) -> None:
        self.folder, self.chance = folder, chance
        self.checkpoint = folder / "checkpoint"
        self._nodes = {name: _free_address() for name in ("one", "other")}
        self._processes: dict[str, NsqdProcess] = {}
        for name in ("spark", "input"):
            (folder / name).mkdir()
        self._home = make_slim_home(folder / "spark")
        for file in range(FILES):
            numbers = range(file * ROWS_PER_FILE, (file + 1) * ROWS_PER_FILE)
            rows = pa.table({"body": [body_of(number) for number in numbers]})
            pq.write_table(rows, folder / "input" / f"{file}.parquet", row_group_size=5000)

    def start_nsqd(self, name: str) -> None:
        folder = self.folder / name
        folder.mkdir(exist_ok=True)
        process = NsqdProcess(str(folder), f"--http-address={self._nodes[name]}")
        self._processes[name] = process.__enter__()

    def kill_nsqd(self, name: str) -> None:
        self._processes[name].kill()
        self.start_nsqd(name)

    def close(self) -> None:
        with ExitStack() as stack:
            for process in self._processes.values():
                stack.push(process)

    @contextmanager
    def job(self, *, fails_twice: bool = False) -> Iterator["subprocess.Popen[bytes]"]:
        """Each run cuts its batches in its own way."""
        job = {
            "input": str(self.folder / "input"),
            "fails_twice": fails_twice,
            "conf": {
                "spark.sql.files.maxPartitionBytes": str(
                    self.chance.choice([300_000, 1_000_000, 100_000_000])
                ),
                "spark.sql.files.openCostInBytes": "1",
                "spark.sql.execution.arrow.maxRecordsPerBatch": "5000",
            },
            "options": {
                "nsqd": ",".join(self._nodes.values()),
                "topic": TOPIC,
                "checkpointLocation": str(self.checkpoint),
                "maxRequestBytes": "200000",
                "retries": "12",
            },
        }
        environment = {
            **os.environ,
            "SPARK_HOME": str(self._home),
            "PYSPARK_PYTHON": sys.executable,
            "PYSPARK_SUBMIT_ARGS": f"--driver-memory 1g --driver-java-options '{JAVA_OPTIONS}' pyspark-shell",
            "PYTHONPATH": os.pathsep.join(str(Path(__file__).parents[2] / part) for part in ("src", ".")),
        }
        command = [sys.executable, "-m", "tests.spark.sink_job", json.dumps(job)]
        with open(self.folder / "job.log", "ab") as log:
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
            _kill(process)

    def finish(self, **options: bool) -> None:
        with self.job(**options) as process:
            assert process.wait(LIMIT_S) == 0, self.log

    def kill_job_when(self, happens: Callable[[], object]) -> None:
        with self.job() as process:
            _wait(lambda: happens() or process.poll() is not None)
            assert process.poll() is None, self.log

    @property
    def log(self) -> str:
        return (self.folder / "job.log").read_text(errors="replace")[-5000:]

    def planned_count(self) -> int:
        """How many batches Spark has begun."""
        offsets = self.checkpoint / "offsets"
        return len(list(offsets.glob("[0-9]*"))) if offsets.exists() else 0

    def decided(self) -> str:
        try:
            return (self.checkpoint / FILE_NAME).read_text()
        except FileNotFoundError:
            return ""

    def expect_every_row_once(self) -> None:
        found = sorted(read_topic(self._nodes.values(), TOPIC))
        expected = [body_of(number).encode() for number in range(FILES * ROWS_PER_FILE)]
        assert len(found) == len(expected)
        assert sum(map(zlib.crc32, found)) == sum(map(zlib.crc32, expected))
        assert found == expected


def _free_address() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{probe.getsockname()[1]}"


def _kill(process: "subprocess.Popen[bytes]") -> None:
    """The driver and its JVM; the workers see that and end."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _wait(condition: Callable[[], object]) -> None:
    deadline_s = time.monotonic() + LIMIT_S
    while not condition():
        assert time.monotonic() < deadline_s, "did not come in time"
        time.sleep(0.002)


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    seed = int.from_bytes(os.urandom(4))
    print("seed", seed)
    bench = Bench(tmp_path, random.Random(seed))
    try:
        bench.start_nsqd("one")
        bench.start_nsqd("other")
        yield bench
    finally:
        bench.close()


def test_tasks_that_fail_twice_publish_every_row_once(bench: Bench) -> None:
    bench.finish(fails_twice=True)

    assert bench.log.count("this attempt was to fail") > 1
    bench.expect_every_row_once()


def test_a_driver_that_is_killed_goes_on_from_its_checkpoint(bench: Bench) -> None:
    late_s = bench.chance.uniform(0, 2)
    bench.kill_job_when(lambda: bench.planned_count() > 1 and time.sleep(late_s) is None)
    decided = bench.decided()
    bench.kill_job_when(lambda: bench.decided() != decided)

    bench.finish()

    bench.expect_every_row_once()


def test_nodes_that_are_killed_are_waited_for(bench: Bench) -> None:
    with bench.job() as job:
        for name in ("one", "other", "one"):
            decided, planned = bench.decided(), bench.planned_count()
            _wait(lambda: bench.decided() != decided or job.poll() is not None)  # noqa: B023
            bench.kill_nsqd(name)
            _wait(lambda: bench.planned_count() > planned or job.poll() is not None)  # noqa: B023
            time.sleep(bench.chance.uniform(0, 0.5))
            bench.kill_nsqd(name)
        ended = job.wait(LIMIT_S)
    if ended:  # a node was away for longer than a task waits: the query is started again
        assert "WriteError" in bench.log
        bench.finish()

    bench.expect_every_row_once()
