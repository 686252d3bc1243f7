"""What code may not do, beyond what import-linter sees: print, exit, log, or run what it reads."""

import ast
from pathlib import Path

import pytest

from tests.architecture.source import PACKAGE, TESTS, calls, imported_names, parse, shown, source_files

PURE = ("wire", "topiclog", "nsqd/core")
RUNS_WHAT_IT_READS = {"pickle", "marshal", "shelve", "dill", "cloudpickle", "jsonpickle"}
EVALUATORS = {"eval", "exec", "compile", "yaml.load", "yaml.unsafe_load"}
LEAVERS = {"print", "exit", "quit", "sys.exit", "os._exit", "os.abort"}
LOG_SETTERS = {"setup_logging", "logging.basicConfig"}
MAY_SLEEP = tuple(TESTS / folder for folder in ("crash", "interop", "browser"))
POLLS_A_PROCESS = TESTS / "fakes" / "nsqd_process.py"  # a real daemon tells in its log how far it is


def found_calls(paths: list[Path], names: set[str]) -> list[str]:
    return [
        f"{shown(path)}:{call.lineno} {name}" for path in paths for call, name in calls(path) if name in names
    ]


def test_nothing_in_the_package_runs_what_it_reads() -> None:
    paths = source_files()
    imported = [
        f"{shown(path)}:{line} {name}"
        for path in paths
        for line, name in imported_names(path)
        if name.partition(".")[0] in RUNS_WHAT_IT_READS
    ]

    assert imported == []
    assert found_calls(paths, EVALUATORS) == []


def test_only_apps_print_exit_or_configure_logging() -> None:
    paths = [path for path in source_files() if PACKAGE / "apps" not in path.parents]

    assert found_calls(paths, LEAVERS | LOG_SETTERS) == []
    raised = [
        f"{shown(path)}:{node.lineno}"
        for path in paths
        for node in ast.walk(parse(path))
        if isinstance(node, ast.Raise) and node.exc is not None and "SystemExit" in ast.unparse(node.exc)
    ]
    assert raised == []


@pytest.mark.parametrize("part", PURE)
def test_the_pure_core_does_not_log(part: str) -> None:
    paths = source_files(part)

    assert paths
    assert [
        shown(path) for path in paths for _, name in imported_names(path) if name.startswith("logging")
    ] == []


def test_tests_do_not_sleep() -> None:
    """`asyncio.sleep(0)` is one turn of the loop, not time."""
    slept = []
    for path in sorted(TESTS.rglob("*.py")):
        if path == POLLS_A_PROCESS or any(folder in path.parents for folder in MAY_SLEEP):
            continue
        for call, name in calls(path):
            is_turn = name == "asyncio.sleep" and [ast.unparse(argument) for argument in call.args] == ["0"]
            if name.rpartition(".")[2] == "sleep" and not is_turn:
                slept.append(f"{shown(path)}:{call.lineno}")

    assert slept == []
