"""A shared nsqd, clients that are closed after each test, and its figures."""

import contextlib
import itertools
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
def topic() -> str:
    return f"topic-{next(_numbers)}"
