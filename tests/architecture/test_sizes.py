"""Long modules and functions are where bugs live: the limits, and the few exceptions with their reason."""

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.architecture.source import PACKAGE, ROOT, parse, shown, source_files

MODULE_LINES = 500
APP_LINES = 200
FUNCTION_LINES = 50
EXCEPTIONS = Path(__file__).with_name("size_exceptions.txt")


def exceptions() -> dict[str, str]:
    """`path` or `path::function`, then the reason."""
    lines = EXCEPTIONS.read_text(encoding="utf-8").splitlines()
    entries = [line.split(maxsplit=1) for line in lines if line and not line.startswith("#")]
    return {entry[0]: entry[1] for entry in entries}


def checked_files() -> list[Path]:
    return [*source_files(), *sorted((ROOT / "bench").rglob("*.py"))]


def too_long() -> dict[str, int]:
    found: dict[str, int] = {}
    for path in checked_files():
        lines = len(path.read_text(encoding="utf-8").splitlines())
        limit = APP_LINES if (PACKAGE / "apps") in path.parents else MODULE_LINES
        if lines > limit:
            found[shown(path)] = lines
        for name, function in functions(parse(path)):
            if length(function) > FUNCTION_LINES:
                found[f"{shown(path)}::{name}"] = length(function)
    return found


def functions(
    tree: ast.AST, prefix: str = ""
) -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield prefix + node.name, node
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield from functions(node, f"{prefix}{node.name}.")


def length(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines without the docstring."""
    assert function.end_lineno is not None
    lines = function.end_lineno - function.lineno + 1
    first = function.body[0]
    if ast.get_docstring(function, clean=False) is not None:
        assert first.end_lineno is not None
        lines -= first.end_lineno - first.lineno + 1
    return lines


def test_modules_and_functions_are_short() -> None:
    allowed = exceptions()

    found = {name: lines for name, lines in too_long().items() if name not in allowed}

    assert found == {}, f"split them, or say in {EXCEPTIONS.name} why not"


def test_exceptions_are_few_and_needed() -> None:
    allowed = exceptions()

    assert set(allowed) <= set(too_long()), f"short again: remove them from {EXCEPTIONS.name}"
    assert len(allowed) <= 5


def test_a_package_holds_no_logic_in_its_init() -> None:
    allowed = ast.Import | ast.ImportFrom | ast.Expr | ast.Assign
    for path in source_files():
        if path.name == "__init__.py":
            assert [shown(path) for node in parse(path).body if not isinstance(node, allowed)] == []
