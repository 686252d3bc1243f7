import re
from collections.abc import Callable
from typing import Annotated

import msgspec
import pytest

from nsqlake.apps.tool_support.errors import ToolError
from nsqlake.apps.tool_support.option_types import ConsumerOpt, ShowVersion
from nsqlake.apps.tool_support.program import Tool, run_tool
from nsqlake.runtime.errors import ConfigurationError
from nsqlake.runtime.option_kinds import STRING
from nsqlake.runtime.options import Option
from tests.apps.tools import DATE, logging_as_before


class SampleOptions(msgspec.Struct, frozen=True):
    topic: Annotated[str, Option("topic", STRING, "what to read")] = "orders"
    consumer_opts: ConsumerOpt = ()
    version: ShowVersion = False


def checked(options: SampleOptions) -> SampleOptions:
    if options.topic == "none":
        raise ConfigurationError("topic", "", "--topic required")
    return msgspec.structs.replace(options, topic=options.topic.upper())


def sample(outcome: Callable[[SampleOptions], int]) -> Tool[SampleOptions]:
    async def run(options: SampleOptions) -> int:
        return outcome(options)

    return Tool("nsq_sample", "Samples.", ("nsq_sample --topic=orders",), SampleOptions, checked, run)


def never(options: SampleOptions) -> int:
    raise AssertionError(options)


def test_it_runs_with_the_checked_options_and_returns_its_code() -> None:
    seen = []

    with logging_as_before():
        code = run_tool(
            sample(lambda options: seen.append(options) or 3), ["--topic=logs", "--consumer-opt=snappy"]
        )  # type: ignore[func-returns-value]

    assert code == 3
    assert [(options.topic, options.consumer_opts) for options in seen] == [("LOGS", (("snappy", True),))]


def test_help_teaches_on_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    code = run_tool(sample(never), ["--help"])

    output = capsys.readouterr()
    assert (code, output.out) == (0, "")
    assert output.err.startswith(
        "Usage of nsq_sample:\n  nsq_sample [--flag=value ...]\n\nSamples.\n\nexamples:\n"
    )
    assert '  --topic string (default "orders")\n        what to read\n' in output.err
    assert "config" not in output.err


def test_the_version_goes_to_stdout(capsys: pytest.CaptureFixture[str]) -> None:
    code = run_tool(sample(never), ["--version", "--topic=none"])

    assert (code, capsys.readouterr().out) == (0, "nsq_sample v1.3.0\n")


@pytest.mark.parametrize(
    ("flag", "line"),
    [
        ("--bogus", "flag provided but not defined: -bogus"),
        ("--topic", "flag needs an argument: -topic"),
        (
            "--consumer-opt=sample_rate,100",
            'invalid value "sample_rate,100" for flag -consumer-opt: invalid sample_rate ! 100 > 99',
        ),
    ],
)
def test_a_wrong_flag_is_told_before_the_usage(
    flag: str, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code = run_tool(sample(never), ["--version", flag])

    output = capsys.readouterr()
    assert (code, output.out) == (2, "")
    assert output.err.startswith(f"{line}\nUsage of nsq_sample:\n")


def test_a_failed_check_is_one_log_line(capsys: pytest.CaptureFixture[str]) -> None:
    with logging_as_before():
        code = run_tool(sample(never), ["--topic=none"])

    assert code == 1
    assert re.fullmatch(f"{DATE} --topic required\n", capsys.readouterr().err)


def fail_on_purpose(options: SampleOptions) -> int:
    raise ToolError("no\nmore")


def test_a_failure_while_running_is_one_log_line(capsys: pytest.CaptureFixture[str]) -> None:
    with logging_as_before():
        code = run_tool(sample(fail_on_purpose), [])

    assert code == 1
    assert re.fullmatch(rf"{DATE} no\\nmore\n", capsys.readouterr().err)


def test_an_error_of_its_own_shows_its_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    with logging_as_before():
        code = run_tool(sample(never), [])

    lines = capsys.readouterr().err.splitlines()
    assert code == 1
    assert re.fullmatch(f"{DATE} nsq_sample stopped by an error of its own", lines[0])
    assert " | AssertionError: SampleOptions(" in lines[-1]


def test_what_follows_the_flags_is_ignored() -> None:
    with logging_as_before():
        assert run_tool(sample(lambda options: 0), ["--topic=x", "word", "--bogus"]) == 0
