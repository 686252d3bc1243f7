"""pytest fixtures; a project that wants them says `pytest_plugins = ["nsqlake.testing.pytest_plugin"]`."""

from collections.abc import Iterator
from typing import Any

import pytest

from nsqlake.testing.clock import ManualClock
from nsqlake.testing.nsqd import NsqdFixture, running_nsqd

__all__ = ["nsqd", "nsqd_options"]


@pytest.fixture
def nsqd_options() -> dict[str, Any]:
    """Options of the nsqd; to be overridden where others are wanted."""
    return {}


@pytest.fixture
def nsqd(nsqd_options: dict[str, Any]) -> Iterator[NsqdFixture]:
    """An nsqd of the test's own, whose clock the test moves."""
    with running_nsqd(clock=ManualClock(), **nsqd_options) as fixture:
        yield fixture
