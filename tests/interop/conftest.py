"""One broker and one build of each published client for all tests of this folder."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.interop.broker import Broker, running_nsqd
from tests.interop.clients import CLIENTS, Client, ClientUnavailableError, Prepare
from tests.interop.contract import MODES, Run, play
from tests.interop.go_processes import Running
from tests.interop.go_programs import GoPrograms, build_programs


@pytest.fixture(scope="session")
def nsqd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with running_nsqd(tmp_path_factory.mktemp("nsqd")) as broker:
        yield broker


@pytest.fixture(scope="session")
def prepare(tmp_path_factory: pytest.TempPathFactory) -> Prepare:
    """The command that starts a client, built once, or why there is none."""
    prepared: dict[str, list[str] | ClientUnavailableError] = {}

    def prepare_once(client: Client) -> list[str] | ClientUnavailableError:
        if client.name not in prepared:
            try:
                prepared[client.name] = client.prepare(tmp_path_factory.mktemp(client.name))
            except ClientUnavailableError as error:
                prepared[client.name] = error
        return prepared[client.name]

    return prepare_once


@pytest.fixture(params=MODES)
def mode(request: pytest.FixtureRequest) -> str:
    mode: str = request.param
    return mode


@pytest.fixture(scope="session", params=CLIENTS, ids=lambda client: client.name)
def client(request: pytest.FixtureRequest) -> Client:
    client: Client = request.param
    return client


@pytest.fixture(scope="session")
def runs(client: Client, nsqd: Broker, prepare: Prepare) -> dict[str, Future[Run]]:
    command = prepare(client)
    if isinstance(command, ClientUnavailableError):
        pytest.skip(str(command))
    with ThreadPoolExecutor(len(MODES)) as pool:
        return {mode: pool.submit(play, command, nsqd, f"{client.name}.{mode}", mode) for mode in MODES}


@pytest.fixture
def run(runs: dict[str, Future[Run]], mode: str) -> Run:
    return runs[mode].result()


@pytest.fixture(scope="session")
def programs(tmp_path_factory: pytest.TempPathFactory) -> GoPrograms:
    try:
        return build_programs(tmp_path_factory.mktemp("go_tools"))
    except ClientUnavailableError as error:
        pytest.skip(str(error))


@pytest.fixture
def start(programs: GoPrograms, tmp_path: Path) -> Iterator[Callable[..., Running]]:
    started: list[Running] = []

    def start(name: str, *flags: str) -> Running:
        running = Running([programs.path(name), *flags], tmp_path / f"{name}.log")
        started.append(running)
        return running

    yield start
    for running in started:
        running.stop()
