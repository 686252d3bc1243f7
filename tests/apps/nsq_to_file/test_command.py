import re

import pytest

from nsqlake.apps.nsq_to_file import main

DATE = r"\d{4}/\d\d/\d\d \d\d:\d\d:\d\d"
SOURCE = ("--topic=t", "--nsqd-tcp-address=127.0.0.1:1")


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    code = main(words)
    output = capsys.readouterr()
    return code, output.out, output.err


def test_the_version_is_nsqs(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "--version") == (0, "nsq_to_file v1.3.0\n", "")


def test_a_bad_log_level_counts_before_the_version(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, "--log-level=bogus", "--version")

    assert (code, out) == (1, "")
    assert re.fullmatch(rf"{DATE} --log-level is invalid\n", err)


@pytest.mark.parametrize("flag", ["-h", "--help"])
def test_help_goes_to_stderr_under_its_own_name(capsys: pytest.CaptureFixture[str], flag: str) -> None:
    """The Go tool says "Usage of nsqd"."""
    code, out, err = run(capsys, flag)

    assert (code, out) == (0, "")
    assert err.startswith("Usage of nsq_to_file:\n")
    assert "--rotate-interval duration" in err


@pytest.mark.parametrize(
    ("word", "text"),
    [
        ("--bogus", "flag provided but not defined: -bogus"),
        ("--rotate-size=x", 'invalid value "x" for flag -rotate-size: parse error'),
        ("--consumer-opt=bogus,1", 'invalid value "bogus,1" for flag -consumer-opt: invalid option bogus'),
        ("--consumer-opt=msg_timeout", "failed to coerce option msg_timeout (true) - invalid value type"),
    ],
)
def test_a_bad_flag_is_told_with_the_usage(capsys: pytest.CaptureFixture[str], word: str, text: str) -> None:
    code, out, err = run(capsys, *SOURCE, word)

    assert (code, out) == (2, "")
    assert text in err.partition("\n")[0]
    assert "Usage of nsq_to_file:" in err


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["a", "b", "--version"], "unknown arguments: [a b --version]"),
        (["--topic=t"], "--nsqd-tcp-address or --lookupd-http-address required."),
        ([*SOURCE, "--sync-interval=0"], "--sync-interval must be greater than 0"),
        (
            [*SOURCE, "--consumer-opt=heartbeat_interval,90s"],
            "HeartbeatInterval 1m30s must be less than ReadTimeout 1m0s",
        ),
    ],
)
def test_what_cannot_work_is_one_line(
    capsys: pytest.CaptureFixture[str], words: list[str], text: str
) -> None:
    code, out, err = run(capsys, *words)

    assert (code, out) == (1, "")
    assert re.fullmatch(rf"{DATE} {re.escape(text)}\n", err)
