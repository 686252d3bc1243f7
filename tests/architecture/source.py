"""The repository as the tests of its architecture see it: files, parsed modules, what they call."""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "nsqlake"
TESTS = ROOT / "tests"


def source_files(*under: str) -> list[Path]:
    """Python files of the package, or of the given parts of it, such as `wire` or `nsqd/core`."""
    folders = [PACKAGE / part for part in under] or [PACKAGE]
    return sorted(path for folder in folders for path in folder.rglob("*.py"))


def shown(path: Path) -> str:
    """The path as a reader of a failure wants it."""
    return path.relative_to(ROOT).as_posix()


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT / "src").with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def imported_names(path: Path) -> Iterator[tuple[int, str]]:
    """Line and dotted name of everything imported, wherever in the file."""
    for node in ast.walk(parse(path)):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                yield node.lineno, f"{node.module}.{alias.name}"


def calls(path: Path) -> Iterator[tuple[ast.Call, str]]:
    """Every call and the name called as it is written: `print`, `os.fork`, `self.turn.wake`."""
    for node in ast.walk(parse(path)):
        if isinstance(node, ast.Call):
            yield node, ast.unparse(node.func)
