"""A shared nsqd for tests that need no options of their own, and clients that are closed after each test."""

import contextlib
import itertools
import logging
from collections.abc import Callable, Iterator

import pytest

from nsqlake.testing.nsqd import NsqdFixture, running_nsqd
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
