"""The tests on the page about testing, run as a reader would run them."""

import inspect
from collections.abc import Callable, Iterator

import pytest

from nsqlake.testing.clock import ManualClock
from nsqlake.testing.nsqd import NsqdFixture, running_nsqd
from tests.architecture.pages import blocks
from tests.architecture.source import ROOT

BLOCKS = [block.text for block in blocks(ROOT / "docs" / "testing.md") if block.language == "python"]


def find_tests(text: str) -> Iterator[tuple[str, Callable[..., None]]]:
    names: dict[str, Callable[..., None]] = {"__name__": "page"}  # type: ignore[dict-item]
    exec(compile(text, "testing.md", "exec"), names)
    yield from ((name, value) for name, value in names.items() if name.startswith("test_"))


PROGRAMS = [test for text in BLOCKS for test in find_tests(text)]


@pytest.fixture
def nsqd() -> Iterator[NsqdFixture]:
    with running_nsqd(clock=ManualClock()) as fixture:
        yield fixture


@pytest.mark.parametrize(("name", "test"), PROGRAMS, ids=[name for name, _ in PROGRAMS])
def test_the_page_holds_what_it_says(
    name: str, test: Callable[..., None], request: pytest.FixtureRequest
) -> None:
    wanted = inspect.signature(test).parameters

    test(*[request.getfixturevalue(parameter) for parameter in wanted])


def test_every_block_has_a_test() -> None:
    assert all("def test_" in text for text in BLOCKS)
    assert len(PROGRAMS) >= 8
