"""Every test that the page on compatibility names is where it says."""

import re

from tests.architecture.pages import lines_of_spans
from tests.architecture.source import ROOT

PAGE = ROOT / "docs" / "compatibility.md"
NAME = re.compile(r"test_\w+")


def named_tests() -> list[tuple[str, str]]:
    """File and name, "" for a file as a whole."""
    found = []
    for spans in lines_of_spans(PAGE):
        file = ""
        for span in spans:
            if span.startswith("tests/") and span.endswith(".py"):
                file = span
                found.append((file, ""))
            elif NAME.fullmatch(span):
                found.append((file, span))
    return found


def test_every_test_that_the_page_names_exists() -> None:
    named = named_tests()

    sources = {file: (ROOT / file).read_text(encoding="utf-8") for file, _ in named}

    wanted = [(file, f"def {name}(" if name else "def test_") for file, name in named]
    assert [(file, text) for file, text in wanted if text not in sources[file]] == []
    assert len(named) > 200


def test_every_row_says_whether_it_is_the_same() -> None:
    text = PAGE.read_text(encoding="utf-8")
    tables = text[: text.index("## Not yet")]

    rows = [line.split(" | ") for line in tables.splitlines() if line.startswith("| ")]
    kinds = {row[1].strip() for row in rows if row[0] != "| feature"}

    assert kinds == {"same", "differs", "beyond"}


def test_every_row_names_its_test() -> None:
    text = PAGE.read_text(encoding="utf-8")
    tables = text[: text.index("## Not yet")]

    rows = [line.rsplit(" | ", 1) for line in tables.splitlines() if line.startswith("| ")]

    assert [row for row, test in rows if "`tests/" not in test and not row.startswith("| feature")] == []
