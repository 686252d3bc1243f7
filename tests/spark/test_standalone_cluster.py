"""From a topic to a topic and back on a master with two workers, and through Spark Connect."""

import json
import os
import signal
import socket
import subprocess
import sys
import zlib
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import pyspark
import pytest

from tests.fakes.nsqd_process import NsqdProcess, wait_for
from tests.spark.conftest import JAVA_OPTIONS, make_slim_home
from tests.spark.support import publish

pytestmark = [pytest.mark.spark, pytest.mark.slow]

ROWS = 100_000
LIMIT_S = 240
ROOT = Path(__file__).parents[2]


def body(number: int) -> bytes:
    return b"%d %b" % (number, b"x" * (number % 100))


class Cluster:
    """Processes of Spark's pip package, each in a group of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "home").mkdir()
        self._environment = {
            **os.environ,
            "SPARK_HOME": str(make_slim_home(folder / "home")),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_DAEMON_MEMORY": "512m",
            "SPARK_DAEMON_JAVA_OPTS": JAVA_OPTIONS,
            "PYSPARK_PYTHON": sys.executable,
            "PYSPARK_SUBMIT_ARGS": f"--driver-memory 1g --driver-java-options '{JAVA_OPTIONS}' pyspark-shell",
            "PYTHONPATH": os.pathsep.join((str(ROOT / "src"), str(ROOT))),
        }

    @contextmanager
    def process(self, name: str, command: Sequence[str]) -> Iterator["subprocess.Popen[bytes]"]:
        with (self.folder / f"{name}.log").open("wb") as log:
            process = subprocess.Popen(
                command,
                env=self._environment,
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

    def daemon(self, name: str, *arguments: str) -> Any:
        program = str(Path(pyspark.__file__).parent / "bin" / "spark-class")
        return self.process(name, [program, f"org.apache.spark.deploy.{arguments[0]}", *arguments[1:]])

    def log(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text(errors="replace")

    @contextmanager
    def standalone(self) -> Iterator[str]:
        """A master and two workers of one core; yields the master's address."""
        port = _free_port()
        master = f"spark://127.0.0.1:{port}"
        with ExitStack() as stack:
            flags = ("--host", "127.0.0.1", "--port", str(port), "--webui-port", "0")
            stack.enter_context(self.daemon("master", "master.Master", *flags))
            wait_for(lambda: "I have been elected leader" in self.log("master"), LIMIT_S, 0.1)
            for name in ("one", "other"):
                sizes = ("--cores", "1", "--memory", "700m", "--webui-port", "0", "--host", "127.0.0.1")
                folder = ("--work-dir", str(self.folder / name))
                stack.enter_context(self.daemon(name, "worker.Worker", *sizes, *folder, master))
            wait_for(lambda: self.log("master").count("Registering worker") == 2, LIMIT_S, 0.1)
            yield master

    def run(self, node: str, *, master: str = "", remote: str = "") -> dict[str, Any]:
        result = self.folder / "result.json"
        job = {
            "master": master,
            "remote": remote,
            "conf": {
                "spark.executor.memory": "600m",
                "spark.executor.extraJavaOptions": JAVA_OPTIONS,
                "spark.scheduler.minRegisteredResourcesRatio": "1.0",
                "spark.scheduler.maxRegisteredResourcesWaitingTime": "120s",
                "spark.sql.shuffle.partitions": "2",
            },
            "source": {"nsqd": node, "topic": "in", "startingOffsets": "earliest", "minPartitions": "4"},
            "sink": {"nsqd": node, "topic": "out", "checkpointLocation": str(self.folder / "checkpoint")},
            "read_back": {"nsqd": node, "topic": "out", "minPartitions": "4"},
            "result": str(result),
        }
        with self.process(
            "job", [sys.executable, "-m", "tests.spark.cluster_job", json.dumps(job)]
        ) as process:
            assert process.wait(LIMIT_S) == 0, self.log("job")[-5000:]
        found: dict[str, Any] = json.loads(result.read_text())
        return found


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@pytest.fixture
def node(tmp_path: Path) -> Iterator[str]:
    (tmp_path / "nsqd").mkdir()
    with NsqdProcess(str(tmp_path / "nsqd")) as nsqd:
        for start in range(0, ROWS, 10_000):
            publish(nsqd.http_address, "in", map(body, range(start, start + 10_000)))
        yield nsqd.http_address


def expected_crc32() -> int:
    return sum(zlib.crc32(body(number)) for number in range(ROWS))


def test_two_workers_copy_a_topic_exactly_once(node: str, tmp_path: Path) -> None:
    cluster = Cluster(tmp_path)

    with cluster.standalone() as master:
        found = cluster.run(node, master=master)

    assert (found["count"], found["crc32"]) == (ROWS, expected_crc32())
    assert found["processes"] == 2, "both workers have read"


def test_spark_connect_copies_a_topic_exactly_once(node: str, tmp_path: Path) -> None:
    pytest.importorskip("grpc")

    found = Cluster(tmp_path).run(node, remote="local[2]")

    assert (found["count"], found["crc32"]) == (ROWS, expected_crc32())
