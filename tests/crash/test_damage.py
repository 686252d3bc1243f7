"""Damaged files: the daemon starts, delivers nothing damaged and everything else, and says what it found.

A topic's directory stands alone, so every case gets a copy of one topic under a name of its own, and two
daemons are enough for all: one that finds the damage, and one that finds what the first made of it.
"""

from __future__ import annotations

import copy
import re
import shutil
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.crash.bodies import Content, Key
from tests.crash.book import Book, Outcome
from tests.crash.client import Client, create_channels
from tests.crash.conftest import StartNsqd
from tests.crash.damage_cases import CASES, RUINS, Case, Target
from tests.crash.data_files import BlockPlace, TopicFiles
from tests.crash.harness import Nsqd
from tests.crash.load import drain, finish_all

pytestmark = pytest.mark.slow

TOPIC = "orders"
FLAGS = ("--max-bytes-per-file=60000", "--sync-timeout=100ms")


@dataclass
class Template:
    """A data path as a stopped or killed daemon left it, with four or more segments."""

    data_path: Path
    book: Book
    blocks: list[BlockPlace]
    is_clean: bool


@dataclass
class Found:
    """What became of one damaged topic."""

    book: Book
    lost: set[Key]
    log: str


@pytest.fixture(scope="module", params=["stopped", "killed"])
def template(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Template:
    data_path = tmp_path_factory.mktemp(request.param) / "data"
    data_path.mkdir()
    with Nsqd(data_path, *FLAGS) as nsqd:
        book = fill(nsqd.start())
        if request.param == "stopped":
            nsqd.stop()
        else:
            nsqd.kill()
    book.interrupted()
    blocks = TopicFiles(data_path, TOPIC).blocks()
    assert len({block.path for block in blocks}) >= 4
    return Template(data_path, book, blocks, request.param == "stopped")


def fill(nsqd: Nsqd) -> Book:
    """MPUBs, single PUBs and deferred messages; channel "half" has finished half of them."""
    book = Book()
    create_channels(nsqd.port, TOPIC, "idle", "half")
    contents = [Content(1, number) for number in range(1_200)]
    book.attempt(contents)
    with Client(nsqd.port) as client:
        for start in range(0, 1_000, 10):
            client.publish_many(TOPIC, [content.encode(200) for content in contents[start : start + 10]])
        for content in contents[1_000:1_190]:
            client.publish(TOPIC, content.encode(200 + content.sequence % 3))
        for content in contents[1_190:]:
            client.publish_deferred(TOPIC, 100, content.encode())
    book.answer(contents, Outcome.ACKNOWLEDGED)
    with Client(nsqd.port) as client:
        client.subscribe(TOPIC, "half", ready=600)
        pairs = [(message, book.channel("half").deliver(message)) for message in client.gather(600)]
        finish_all(client, book.channel("half"), [(message, key) for message, key in pairs if key])
        client.ready(0)
        client.barrier()
    wait_for_indexes(nsqd)
    return book


def wait_for_indexes(nsqd: Nsqd) -> None:
    """Closed segments get an index when they are synced; a crash then finds some to trust."""
    log_path = TopicFiles(nsqd.data_path, TOPIC).log_path
    while len(list(log_path.glob("*.index"))) < len(list(log_path.glob("*.log"))) - 1:
        assert nsqd.is_running


@pytest.fixture(scope="module")
def found(template: Template, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Found]:
    """All cases at once."""
    data_path = tmp_path_factory.mktemp("damaged") / "data"
    (data_path / "topics").mkdir(parents=True)
    for boot in template.data_path.glob("boot.*"):
        shutil.copy(boot, data_path)
    cases = {name: ruin(template, data_path, name, case) for name, case in CASES.items()}
    with Nsqd(data_path, *FLAGS) as nsqd, ThreadPoolExecutor(12) as pool:
        nsqd.start()
        list(pool.map(lambda name: first_life(nsqd, name, cases[name]), cases))
        for name, case in CASES.items():
            nsqd.wait_for_log(said_of(name, case), limit_s=10)
        nsqd.kill()
        for each in cases.values():
            each.log = nsqd.log
            each.book.interrupted()
        nsqd.start()
        list(pool.map(lambda name: drain(nsqd.port, cases[name].book, name, *CASES[name].channels), cases))
    return cases


def said_of(name: str, case: Case) -> str:
    return rf"\({name}(/\w+)?\): .*{case.says}"


def ruin(template: Template, data_path: Path, name: str, case: Case) -> Found:
    files = TopicFiles(data_path, name)
    shutil.copytree(TopicFiles(template.data_path, TOPIC).path, files.path)
    blocks = [
        BlockPlace(files.log_path / block.path.name, block.start, block.end, block.keys)
        for block in template.blocks
    ]
    book = copy.deepcopy(template.book)
    lost = case.damage(Target(files, blocks))
    book.answer([book.published[key] for key in lost], Outcome.UNANSWERED)
    if case.forgets:
        for channel in book.channels.values():
            channel.forget_settled()
    if "half" not in case.channels:
        book.channels.clear()
    return Found(book, lost, "")


def first_life(nsqd: Nsqd, topic: str, found: Found) -> None:
    """Take what there is and publish more."""
    drain(nsqd.port, found.book, topic, "idle")
    contents = [Content(2, number) for number in range(20)]
    found.book.attempt(contents)
    with Client(nsqd.port) as client:
        client.publish_many(topic, [content.encode(200) for content in contents])
    found.book.answer(contents, Outcome.ACKNOWLEDGED)


@pytest.mark.parametrize("name", CASES)
def test_damage_costs_only_what_it_touches(found: dict[str, Found], name: str) -> None:
    case = found[name]

    assert case.book.faults == {}
    assert case.lost.isdisjoint(case.book.channel("idle").deliveries)
    assert re.search(said_of(name, CASES[name]), case.log)


@pytest.mark.parametrize("name", [name for name in CASES if name.startswith("tail-cut")])
def test_the_log_tells_how_many_messages_a_cut_tail_cost(
    found: dict[str, Found], template: Template, name: str
) -> None:
    """After a kill nothing tells how long the file was, but after a stop its index does."""
    said = re.search(rf"\({name}\): torn block .* messages=(\d+)", found[name].log)

    assert said is not None
    assert int(said[1]) == len(found[name].lost) or not template.is_clean


def test_a_damaged_boot_file_costs_nothing(start_nsqd: StartNsqd, template: Template, tmp_path: Path) -> None:
    data_path = Path(shutil.copytree(template.data_path, tmp_path / "data"))
    book = copy.deepcopy(template.book)

    for damage in RUINS[:3]:
        for path in data_path.glob("boot.*"):
            damage(path)
        nsqd = start_nsqd(*FLAGS, data_path=data_path)
        nsqd.kill()
        book.interrupted()
    nsqd.restart()
    drain(nsqd.port, book, TOPIC, "idle", "half")

    assert book.faults == {}
