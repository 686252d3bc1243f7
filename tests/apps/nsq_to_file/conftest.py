"""What every test of nsq_to_file shares."""

import logging
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def logging_as_before() -> Iterator[None]:
    root, package = logging.getLogger(), logging.getLogger("nsqlake")
    before = list(root.handlers), root.level, package.level
    yield
    root.handlers[:] = before[0]
    root.setLevel(before[1])
    package.setLevel(before[2])
