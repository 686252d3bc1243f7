"""A shared nsqd for tests that need no options of their own, and clients that are closed after each test."""

import asyncio
import contextlib
import itertools
import logging
from collections.abc import Callable, Iterator
from threading import Thread

import pytest

from nsqlake.testing.nsqd import NsqdFixture, running_nsqd
from tests.fakes.auth_server import FakeAuthServer
from tests.fakes.http_connection import HttpConnection
from tests.fakes.tcp_client import TcpClient

_numbers = itertools.count()

Connect = Callable[..., TcpClient]


@pytest.fixture(scope="module")
def nsqd() -> Iterator[NsqdFixture]:
    with running_nsqd() as nsqd:
        yield nsqd


@pytest.fixture
def connect() -> Iterator[Connect]:
    """`connect(nsqd)` opens a client that is closed after the test."""
    with contextlib.ExitStack() as stack:
        yield lambda nsqd, **options: stack.enter_context(TcpClient(nsqd.tcp_address, **options))


@pytest.fixture
def client(nsqd: NsqdFixture, connect: Connect) -> TcpClient:
    return connect(nsqd)


@pytest.fixture
def topic() -> str:
    return f"topic-{next(_numbers)}"


@pytest.fixture(autouse=True)
def _no_errors_are_logged(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Whatever a client does, no exception may reach the log; a test of failures clears `caplog`."""
    yield
    assert [
        record.getMessage() for record in caplog.get_records("call") if record.levelno >= logging.ERROR
    ] == []


@pytest.fixture
def http(nsqd: NsqdFixture) -> Iterator[HttpConnection]:
    with HttpConnection(nsqd.http_address) as connection:
        yield connection


@pytest.fixture
def auth_server() -> Iterator[FakeAuthServer]:
    """On a loop of its own: the daemon waits for it as it would for another machine."""
    loop = asyncio.new_event_loop()
    thread = Thread(target=loop.run_forever)
    thread.start()
    server = FakeAuthServer()
    asyncio.run_coroutine_threadsafe(server.__aenter__(), loop).result(10)
    with contextlib.closing(loop):
        yield server
        asyncio.run_coroutine_threadsafe(server.__aexit__(None, None, None), loop).result(10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
