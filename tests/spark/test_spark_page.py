"""docs/spark.md tells every option, and its programs run as they stand there."""

import contextlib
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from nsqlake.spark import errors, options
from nsqlake.testing import running_cluster
from nsqlake.testing.cluster import ClusterFixture
from tests.architecture.pages import blocks
from tests.architecture.source import ROOT
from tests.spark.support import ask, bounds, publish

PAGE = ROOT / "docs" / "spark.md"
PROGRAMS = [block.text for block in blocks(PAGE) if block.language == "python"]
NSQD, LOOKUPD = "127.0.0.1:4151", "127.0.0.1:4161"
ORDERS = [b'{"id": %d, "price": 2.5}' % number for number in range(100)]


def test_the_table_of_options_has_every_option_and_no_other() -> None:
    section = PAGE.read_text(encoding="utf-8").partition("## Options")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (`[^|]*`) \|", section, re.MULTILINE)

    named = {name for row in rows for name in re.findall(r"`(\w+)`", row)}

    assert named == {*options._NAMES.values(), *options._WRITE_NAMES.values()}


def test_every_error_is_on_the_page() -> None:
    page = PAGE.read_text(encoding="utf-8")
    hidden = {"SparkSourceError", "RefusedError"}

    assert [name for name in errors.__all__ if name not in hidden and f"`{name}`" not in page] == []


def test_every_column_is_on_the_page() -> None:
    section = PAGE.read_text(encoding="utf-8").partition("## Columns")[2].partition("\n## ")[0]

    assert tuple(re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE)) == options.COLUMNS


@pytest.fixture(scope="module")
def cluster() -> Iterator[ClusterFixture]:
    with running_cluster(nsqds=1, lookupds=1) as cluster:
        cluster.nsqds[0].create_channel("orders", "spark")
        publish(cluster.nsqds[0].http_address, "orders", ORDERS)
        cluster.wait_announced()
        yield cluster


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("page")


@pytest.mark.spark
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.strip().splitlines()[-1][:40])
def test_every_program_runs(program: str, spark: SparkSession, cluster: ClusterFixture, folder: Path) -> None:
    ready = program.replace(NSQD, cluster.nsqds[0].http_address).replace(
        LOOKUPD, cluster.lookupds[0].http_address
    )
    ready = re.sub(r'"((?:tables|checkpoints)/\w+|wal)"', lambda found: repr(str(folder / found[1])), ready)

    with contextlib.chdir(folder):
        exec(compile(ready, "page", "exec"), {"__name__": "__main__", "spark": spark})


@pytest.mark.spark
def test_the_programs_have_done_what_the_page_says(
    spark: SparkSession, cluster: ClusterFixture, folder: Path
) -> None:
    """After those above: they wrote two orders, and read the topic before or after that."""
    node, least = cluster.nsqds[0].http_address, len(ORDERS)

    assert spark.read.parquet(str(folder / "tables/orders")).count() == least
    assert spark.read.parquet(str(folder / "tables/consumed")).count() >= least
    first, next_ = bounds(node, "large_orders")
    assert next_ - first == least
    topics = ask(node, "GET", "/stats", format="json", topic="orders")["topics"]
    assert {channel["channel_name"] for channel in topics[0]["channels"]} == {"warehouse", "spark"}
