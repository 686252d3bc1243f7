import re

import pytest

from nsqlake.apps.demo.progress import Progress, show_progress
from nsqlake.apps.demo.traffic import Consumer, Generator


def test_totals_and_rates_are_shown() -> None:
    shown: list[str] = []
    generator, consumer = Generator(1), Consumer()
    progress = Progress(generator, consumer, 1.0, shown.append)
    generator.published, consumer.finished = 12_345, 12_000

    progress.step()
    progress.step()

    assert re.fullmatch(r"published 12,345 \([\d,]+/s\)   finished 12,000 \([\d,]+/s\)", shown[0])
    assert shown[1] == "published 12,345 (0/s)   finished 12,000 (0/s)"


def test_refused_messages_are_shown_when_there_are_some() -> None:
    shown: list[str] = []
    generator = Generator(1)
    generator.refused = 3

    Progress(generator, Consumer(), 1.0, shown.append).step()

    assert shown[0].endswith("   refused 3")


def test_without_a_terminal_a_line_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    with show_progress(Generator(1), Consumer()) as progress:
        progress.step()

    assert capsys.readouterr().out == "published 0 (0/s)   finished 0 (0/s)\n"
