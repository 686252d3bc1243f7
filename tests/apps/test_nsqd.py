import logging
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from nsqlake.apps.nsqd import main
from nsqlake.nsqd.options import NsqdOptions
from nsqlake.runtime.errors import ConfigurationError, StartupError

DATE = r"\d{4}/\d\d/\d\d \d\d:\d\d:\d\d"
FATAL = rf"\[nsqd\] {DATE}\.\d{{6}} FATAL: "


class FakeDaemon:
    """Remembers its options and ends as told."""

    def __init__(self, outcome: int | Exception = 0) -> None:
        self.outcome = outcome
        self.options: NsqdOptions | None = None

    def __call__(self, options: NsqdOptions) -> int:
        self.options = options
        if isinstance(self.outcome, Exception):
            raise self.outcome
        return self.outcome


@pytest.fixture(autouse=True)
def logging_as_before() -> Iterator[None]:
    root, package = logging.getLogger(), logging.getLogger("nsqlake")
    before = list(root.handlers), root.level, package.level
    yield
    root.handlers[:] = before[0]
    root.setLevel(before[1])
    package.setLevel(before[2])


def test_the_daemon_runs_with_flags_over_config_over_defaults(tmp_path: Path) -> None:
    config = tmp_path / "nsqd.toml"
    config.write_text('msg_timeout = 30000\nmem_queue_size = 5\nlog_level = "warn"\n')
    daemon = FakeDaemon()

    code = main([f"--config={config}", "--mem-queue-size=7"], runner=daemon)

    assert code == 0
    assert daemon.options is not None
    assert (daemon.options.msg_timeout_ns, daemon.options.mem_queue_size) == (30_000_000_000, 7)


def test_the_daemon_gets_what_validation_filled_in() -> None:
    daemon = FakeDaemon()

    main(["--tls-cert=c", "--tls-key=k", "--tls-client-auth-policy=require"], runner=daemon)

    assert daemon.options is not None
    assert daemon.options.tls_required == 2


def test_the_exit_code_is_the_daemons() -> None:
    assert main([], runner=FakeDaemon(3)) == 3


def test_the_version_goes_to_stdout_and_nothing_starts(capsys: pytest.CaptureFixture[str]) -> None:
    daemon = FakeDaemon()

    code = main(["--version", "--config=/none", "--node-id=-1"], runner=daemon)

    output = capsys.readouterr()
    assert code == 0
    assert re.fullmatch(r"nsqd v1\.3\.0 \(built w/python3\.\d+\.\d+\)\n", output.out)
    assert (output.err, daemon.options) == ("", None)


def test_help_goes_to_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["--help"], runner=FakeDaemon())

    output = capsys.readouterr()
    assert code == 0
    assert output.err.startswith("Usage of nsqd:\n")
    assert output.out == ""


@pytest.mark.parametrize(
    ("flag", "line"),
    [
        ("--worker-id=5", 'invalid boolean value "5" for -worker-id: parse error'),
        ("--bogus", "flag provided but not defined: -bogus"),
        ("---x", "bad flag syntax: ---x"),
    ],
)
def test_a_wrong_flag_is_told_before_the_usage(
    flag: str, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code = main([flag, "--version"], runner=FakeDaemon())

    output = capsys.readouterr()
    assert code == 2
    assert output.err.startswith(f"{line}\nUsage of nsqd:\n")
    assert output.out == ""


def test_a_percentile_that_is_no_number_is_told_without_usage(capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["--e2e-processing-latency-percentile=abc", "--version"], runner=FakeDaemon())

    assert code == 1
    assert re.fullmatch(rf"{DATE} Could not parse: abc\n", capsys.readouterr().err)


def test_a_config_value_of_the_wrong_type_is_told_without_prefix(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "nsqd.toml"
    config.write_text("msg_timeout = 1.5\n")

    code = main([f"--config={config}"], runner=FakeDaemon())

    assert code == 1
    assert re.fullmatch(
        rf"{DATE} ERROR: Resolve failed to coerce value 1\.5 \(1m0s\) for field MsgTimeout"
        r" - invalid time\.Duration value type float64\n",
        capsys.readouterr().err,
    )


def test_a_wrong_word_in_the_config_file_is_fatal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = tmp_path / "nsqd.toml"
    config.write_text('tls_required = "maybe"\n')

    code = main([f"--config={config}"], runner=FakeDaemon())

    assert code == 1
    assert re.fullmatch(FATAL + "failed parsing tls_required maybe\n", capsys.readouterr().err)


def test_a_missing_config_file_is_fatal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "none.toml"

    code = main([f"--config={path}"], runner=FakeDaemon())

    assert code == 1
    assert re.fullmatch(
        FATAL + f"failed to load config file {path} - open {path}: no such file or directory\n",
        capsys.readouterr().err,
    )


def test_fatal_lines_keep_their_prefix_whatever_log_prefix_says(capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["--max-deflate-level=10", "--log-prefix=x "], runner=FakeDaemon())

    assert code == 1
    text = "failed to instantiate nsqd - --max-deflate-level must be [1,9]"
    assert re.fullmatch(FATAL + re.escape(text) + "\n", capsys.readouterr().err)


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (
            StartupError("listen (x) failed - in use"),
            "failed to instantiate nsqd - listen (x) failed - in use",
        ),
        (StartupError("bad\nJSON", during="failed to load metadata"), "failed to load metadata - bad\\nJSON"),
        (ConfigurationError("x", 1, "--x is odd"), "failed to instantiate nsqd - --x is odd"),
    ],
)
def test_an_error_at_the_start_of_the_daemon_is_fatal(
    error: Exception, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code = main([], runner=FakeDaemon(error))

    assert code == 1
    assert re.fullmatch(FATAL + re.escape(text) + "\n", capsys.readouterr().err)


def test_an_unexpected_error_is_logged_with_its_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["--log-prefix=[me] "], runner=FakeDaemon(RuntimeError("surprise")))

    lines = capsys.readouterr().err.splitlines()
    assert code == 1
    assert re.fullmatch(rf"\[me\] {DATE}\.\d{{6}} FATAL: nsqd stopped by an error of its own", lines[0])
    assert lines[-1].endswith(" FATAL: | RuntimeError: surprise")


def test_words_that_end_the_flags_are_pointed_out(capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["--deflate", "false", "--snappy=false"], runner=FakeDaemon())

    assert code == 0
    assert capsys.readouterr().err.endswith("WARNING: ignored what follows the flags: false --snappy=false\n")
