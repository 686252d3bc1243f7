"""Pages name only what exists, and the commands and programs in them work."""

import importlib.util
import re
import shlex
import tomllib
from pathlib import Path
from pkgutil import resolve_name

import msgspec
import pytest

from nsqlake.apps.nsq_stat.options import NsqStatOptions
from nsqlake.apps.nsq_tail.options import NsqTailOptions
from nsqlake.apps.nsq_to_file.options import NsqToFileOptions
from nsqlake.apps.nsq_to_http.options import NsqToHttpOptions
from nsqlake.apps.nsq_to_nsq.options import NsqToNsqOptions
from nsqlake.apps.nsqlake import build_parser
from nsqlake.apps.to_nsq.options import ToNsqOptions
from nsqlake.nsqd.options import NsqdOptions, validate
from nsqlake.nsqlookupd.options import NsqlookupdOptions
from nsqlake.runtime.go_flags import parse_flags
from nsqlake.runtime.options import option_fields
from nsqlake.runtime.toml_options import resolve_options
from tests.architecture.pages import Block, blocks, lines_of_spans, links, pages
from tests.architecture.programs import run_program
from tests.architecture.source import PACKAGE, ROOT

PAGES = pages()
PATH = re.compile(r"[\w.-]+(/[\w.-]+)*(/|\.(py|md|toml|txt|json|go|js))")
MODULE = re.compile(r"(nsqlake|bench)(\.\w+)+")
NAME = re.compile(r"[A-Za-z_]\w*(\.\w+)*")
COMMANDS_OF_NSQ = re.compile(r"[A-Z]+")
FLAG = re.compile(r"--[a-z][a-z0-9-]+")
SHELLS = ("console", "sh")
OPERATORS = {"|", "<", ">", "&"}
OPTIONS: dict[str, type[msgspec.Struct]] = {
    "nsqd": NsqdOptions,
    "nsqlookupd": NsqlookupdOptions,
    "nsq_stat": NsqStatOptions,
    "nsq_tail": NsqTailOptions,
    "nsq_to_file": NsqToFileOptions,
    "nsq_to_http": NsqToHttpOptions,
    "nsq_to_nsq": NsqToNsqOptions,
    "to_nsq": ToNsqOptions,
}
FLAGS_OF_BENCH = {
    "--peer-nsqd",
    "--peer-nsqlookupd",
    "--ours",
    "--rounds",
    "--seconds",
    "--only",
    "--list",
    "--json",
    "--quick",
    "--rows",
    "--data-root",
}
FLAGS_OF_OTHERS = {
    "benchmarks.md": FLAGS_OF_BENCH,
    "configuration.md": {"--name"},
    "operations.md": {"--live"},
    "spark.md": {"--archives", "--py-files"},
}


def exists(name: str, page: Path) -> bool:
    folders = (ROOT, PACKAGE, page.parent)
    if any((folder / name).exists() for folder in folders):
        return True
    return "/" not in name and any(ROOT.glob(f"src/**/{name}"))


def module_of(path: str) -> str:
    return "nsqlake." + path.removesuffix(".py").replace("/", ".")


def all_blocks(*languages: str) -> list[Block]:
    return [block for page in PAGES for block in blocks(page) if block.language in languages]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_path_named_on_a_page_exists(page: Path) -> None:
    spans = [span for line in lines_of_spans(page) for span in line if PATH.fullmatch(span)]

    assert [span for span in spans if not exists(span, page)] == []
    assert [target for target in links(page) if not (page.parent / target).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_module_named_on_a_page_exists(page: Path) -> None:
    for line in lines_of_spans(page):
        for span in line:
            if MODULE.fullmatch(span):
                resolve_name(span)


def test_every_function_named_behind_a_file_is_in_that_file() -> None:
    page = ROOT / "ARCHITECTURE.md"
    checked = 0
    for line in lines_of_spans(page):
        module = ""
        for span in line:
            if span.endswith(".py"):
                module = module_of(span)
            elif module and NAME.fullmatch(span) and not COMMANDS_OF_NSQ.fullmatch(span):
                resolve_name(f"{module}.{span}")
                checked += 1

    assert checked >= 10


def test_every_flag_of_nsqd_is_in_the_configuration_page() -> None:
    page = (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8")

    flags = [field.option.flag for field in option_fields(NsqdOptions)]

    assert [flag for flag in flags if f"`--{flag}`" not in page] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_flag_named_on_a_page_exists(page: Path) -> None:
    known = {f"--{field.option.flag}" for options in OPTIONS.values() for field in option_fields(options)}
    spans = [span for line in lines_of_spans(page) for span in line]

    named = {flag[0] for span in spans if (flag := FLAG.match(span))}

    assert named - known - FLAGS_OF_OTHERS.get(page.name, set()) == set()


def programs() -> list[Block]:
    """Those of spark.md need a session of Spark: tests/spark runs them."""
    return [block for block in all_blocks("python") if block.page != "spark.md"]


@pytest.mark.parametrize("block", programs(), ids=lambda block: block.page)
def test_every_program_on_a_page_runs_against_a_real_nsqd(block: Block, tmp_path: Path) -> None:
    run_program(block.text, tmp_path)


@pytest.mark.parametrize("block", all_blocks("toml"), ids=lambda block: block.page)
def test_every_config_file_on_a_page_is_accepted(block: Block) -> None:
    validate(resolve_options(NsqdOptions, {}, tomllib.loads(block.text)))


def shell_commands() -> list[str]:
    lines = [
        (line.removeprefix("$ "), block.language, line.startswith("$ "))
        for block in all_blocks(*SHELLS)
        for line in block.text.splitlines()
    ]
    return [line for line, language, is_prompt in lines if language == "sh" or is_prompt]


@pytest.mark.parametrize("command", shell_commands())
def test_every_command_on_a_page_would_be_understood(command: str) -> None:
    """Commands of ours; what belongs to the shell is the reader's."""
    program, *arguments = shlex.split(command, comments=True)
    program = program.removeprefix(".venv/bin/")
    if program == "make":
        targets = re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
        assert {argument for argument in arguments if "=" not in argument} <= set(targets)
    elif program in OPTIONS:
        left = parse_flags(OPTIONS[program], arguments).arguments
        assert left == [] or left[0] in OPERATORS
    elif program == "nsqlake":
        build_parser().parse_args(arguments)
    elif program == "python" and arguments[:1] == ["-m"]:
        assert importlib.util.find_spec(arguments[1]) is not None
