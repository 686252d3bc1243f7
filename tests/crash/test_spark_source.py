"""A million messages into a table while driver, worker and nsqd are killed: each acknowledged one once."""

import json
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from urllib.parse import unquote, urlsplit

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from nsqlake.spark.errors import NodeError
from tests.fakes.nsqd_process import NsqdProcess, wait_for
from tests.spark.support import publish

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.timeout(400)]

TOTAL = 1_000_000
PER_PUBLISH = 5_000
TOPIC = "copied"
LIMIT_S = 120.0


def body(number: int) -> bytes:
    return b"%08d" % number * 10


class Publisher:
    """Publishes numbers in order, each once; `acknowledged` are those that nsqd has answered for."""

    def __init__(self, node: str) -> None:
        self._node = node
        self._at = 0
        self.acknowledged = np.zeros(TOTAL, bool)

    def publish_up_to(self, end: int, pause_s: float = 0.0) -> None:
        while self._at < end:
            start, self._at = self._at, self._at + PER_PUBLISH
            try:
                publish(self._node, TOPIC, [body(number) for number in range(start, self._at)])
            except NodeError:
                continue  # perhaps stored, perhaps not: to send it again could store it twice
            self.acknowledged[start : self._at] = True
            time.sleep(pause_s)


class Driver:
    """The driver, its JVM and its workers, in a process group of their own."""

    def __init__(self, node: str, folder: Path) -> None:
        self._folder = folder
        with open(folder / "driver.log", "ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.crash.spark_copy", node, TOPIC, str(folder)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                cwd=Path(__file__).parents[2],
            )

    @property
    def has_ended(self) -> bool:
        return self._process.poll() is not None

    @property
    def exit_code(self) -> int:
        return self._process.wait(LIMIT_S)

    def kill(self) -> None:
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def kill_worker(self) -> bool:
        """One Python worker that a task runs in; False when there is none."""
        # The daemon has its arguments from Spark, and workers have them from the daemon that forks them.
        daemons = [pid for pid in self._descendants() if b"pyspark.daemon" in _command(pid)]
        workers = [pid for pid in daemons if _parent(pid) in daemons]
        if workers:
            os.kill(random.choice(workers), signal.SIGKILL)
        return bool(workers)

    def _descendants(self) -> list[int]:
        parents = {int(name): _parent(int(name)) for name in os.listdir("/proc") if name.isdigit()}
        found = [self._process.pid]
        for pid in found:
            found += [child for child, parent in parents.items() if parent == pid]
        return found


def _parent(pid: int) -> int:
    """0 for a process that has gone."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[1])
    except OSError:
        return 0


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def batches(folder: Path, kind: str) -> int:
    """How many batches Spark has planned (`offsets`) or finished (`commits`)."""
    path = folder / "checkpoint" / kind
    return sum(name.isdigit() for name in os.listdir(path)) if path.exists() else 0


def wait_for_batch(folder: Path, driver: Driver) -> None:
    """Until one more batch has been planned and is being run, and then a little."""
    done = batches(folder, "commits")
    wait_for(lambda: driver.has_ended or batches(folder, "commits") > done, LIMIT_S)
    wait_for(
        lambda: driver.has_ended or batches(folder, "offsets") > batches(folder, "commits"), LIMIT_S, 0.002
    )
    time.sleep(random.uniform(0.0, 0.3))


def read_table(folder: Path) -> pa.ChunkedArray:
    """The bodies of what Spark has committed to the table: other files are of attempts that were killed."""
    files: dict[str, None] = {}
    log = folder / "table" / "_spark_metadata"
    names = [path for path in log.iterdir() if not path.name.startswith(".")]
    for path in sorted(names, key=lambda path: int(path.name.partition(".")[0])):
        for line in path.read_text(encoding="utf-8").splitlines()[1:]:
            files[unquote(urlsplit(json.loads(line)["path"]).path)] = None
    return pa.concat_tables([pq.read_table(name, columns=["body"]) for name in files]).column("body")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def test_every_acknowledged_message_is_in_the_table_once(tmp_path: Path) -> None:
    node = f"127.0.0.1:{free_port()}"
    nsqd = NsqdProcess(str(tmp_path), f"--http-address={node}")
    publisher = Publisher(node)
    nsqd.__enter__()
    try:
        publisher.publish_up_to(TOTAL // 2)
        driver = Driver(node, tmp_path)
        wait_for_batch(tmp_path, driver)
        driver.kill()

        driver = Driver(node, tmp_path)
        publishing = threading.Thread(target=publisher.publish_up_to, args=(TOTAL, 0.05))
        publishing.start()
        wait_for_batch(tmp_path, driver)
        killed_worker = driver.kill_worker()
        wait_for_batch(tmp_path, driver)
        nsqd.kill()
        nsqd.__enter__()
        publishing.join()

        (tmp_path / "stop").touch()
        if driver.exit_code:  # a query may fail when a node or a worker dies; its checkpoint is what counts
            assert Driver(node, tmp_path).exit_code == 0, (tmp_path / "driver.log").read_text()[-5000:]
    finally:
        nsqd.__exit__()

    assert killed_worker
    check_table(read_table(tmp_path), publisher.acknowledged)


def check_table(bodies: pa.ChunkedArray, acknowledged: np.ndarray) -> None:  # type: ignore[type-arg]
    numbers = pc.cast(pc.cast(pc.binary_slice(bodies, 0, 8), pa.string()), pa.int64()).to_numpy()
    times = np.bincount(numbers, minlength=TOTAL)
    expected = pa.array([body(number) for number in np.sort(numbers).tolist()], pa.binary())

    assert times.max() == 1
    assert times[acknowledged].min() == 1
    assert acknowledged.sum() > TOTAL * 0.9
    assert pc.take(bodies, pc.sort_indices(pa.array(numbers))).combine_chunks().equals(expected)
