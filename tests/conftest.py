"""Settings that every test shares."""

import logging
import os
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from nsqlake.runtime.logs import LogHandler

# Machines that run the tests are slow and shared: how long one example takes says nothing.
settings.register_profile("default", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("thorough", parent=settings.get_profile("default"), max_examples=5_000)
settings.load_profile(os.environ.get("NSQLAKE_HYPOTHESIS", "default"))


@pytest.fixture(autouse=True)
def _logging_as_it_was() -> Iterator[None]:
    """A command under test points logging at the captured output of its own test: not beyond its end."""
    loggers = [logging.getLogger(), logging.getLogger("nsqlake")]
    levels = [logger.level for logger in loggers]
    yield
    for handler in [each for each in loggers[0].handlers if isinstance(each, LogHandler)]:
        loggers[0].removeHandler(handler)
    for logger, level in zip(loggers, levels, strict=True):
        logger.setLevel(level)
