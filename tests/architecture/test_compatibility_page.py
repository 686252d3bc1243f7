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

    assert [(file, name) for file, name in named if f"def {name or 'test_'}" not in sources[file]] == []
    assert len(named) > 200


def test_every_row_says_whether_it_is_the_same() -> None:
    text = PAGE.read_text(encoding="utf-8")
    tables = text[: text.index("## Not yet")]

    rows = [line.split(" | ") for line in tables.splitlines() if line.startswith("| ")]
    kinds = {row[1].strip() for row in rows if row[0] != "| feature"}

    assert kinds == {"same", "differs", "beyond"}
