"""One Spark session for all tests of a process: it takes seconds to start."""

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pyspark
import pytest
from pyspark.sql import SparkSession

from nsqlake.spark import build_session

# The first compiler and the serial collector start in half the time; no test runs long enough for the others.
JAVA_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xss4m"


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Whoever asks for the session is a test of Spark, and runs with the others of its kind."""
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.spark)


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    if shutil.which("java") is None:
        pytest.skip("Spark needs Java 17: apt-get install openjdk-17-jre-headless")
    os.environ["SPARK_HOME"] = str(make_slim_home(tmp_path_factory.mktemp("spark-home")))
    os.environ["PYSPARK_SUBMIT_ARGS"] = (
        f"--driver-memory 1g --driver-java-options '{JAVA_OPTIONS}' pyspark-shell"
    )
    root = Path(__file__).parents[2]
    paths = [str(root / "src"), str(root), os.environ.get("PYTHONPATH", "")]
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
    os.environ["PYSPARK_PYTHON"] = sys.executable
    session = build_session(
        "nsqlake tests",
        master="local[2]",
        conf={
            "spark.sql.shuffle.partitions": "2",
            "spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse")),
            "spark.sql.streaming.checkpoint.fileChecksum.enabled": "false",
        },
    )
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


def make_slim_home(home: Path) -> Path:
    """Spark without the archive of its Python part, which every worker would have to compile anew."""
    installed = Path(pyspark.__file__).parent
    for name in ("bin", "jars", "sbin"):
        (home / name).symlink_to(installed / name)
    archives = home / "python" / "lib"
    archives.mkdir(parents=True)
    (archives / "pyspark.zip").write_bytes(b"PK\5\6" + bytes(18))
    for archive in (installed / "python" / "lib").glob("py4j*.zip"):
        (archives / archive.name).symlink_to(archive)
    return home
