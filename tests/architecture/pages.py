"""The repository's pages: their code spans, links and code blocks."""

import re
from dataclasses import dataclass
from pathlib import Path

from tests.architecture.source import ROOT

_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_SPAN = re.compile(r"`([^`\n]+)`")
_LINK = re.compile(r"\]\(([^)\s#]+)(?:#[^)]*)?\)")


@dataclass(frozen=True)
class Block:
    """A fenced piece of code."""

    page: str
    language: str
    text: str


def pages() -> list[Path]:
    names = ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md")
    return [*(ROOT / name for name in names), *sorted((ROOT / "docs").rglob("*.md"))]


def blocks(page: Path) -> list[Block]:
    text = page.read_text(encoding="utf-8")
    return [Block(page.name, language, code) for language, code in _FENCE.findall(text)]


def lines_of_spans(page: Path) -> list[list[str]]:
    """For each line of prose, its code spans."""
    prose = _FENCE.sub("", page.read_text(encoding="utf-8"))
    return [_SPAN.findall(line) for line in prose.splitlines()]


def links(page: Path) -> list[str]:
    """Targets of links, without those to other hosts."""
    prose = _FENCE.sub("", page.read_text(encoding="utf-8"))
    return [target for target in _LINK.findall(prose) if "://" not in target]
