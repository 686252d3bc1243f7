"""The command; what it shares with nsqd is tested there."""

import re
import socket
from pathlib import Path

import pytest

from nsqlake.apps.nsqlookupd import main
from nsqlake.nsqlookupd.options import NsqlookupdOptions

DATE = r"\d{4}/\d\d/\d\d \d\d:\d\d:\d\d"


def run(*flags: str) -> tuple[int, NsqlookupdOptions | None]:
    given: list[NsqlookupdOptions] = []

    def daemon(options: NsqlookupdOptions) -> int:
        given.append(options)
        return 0

    return main(flags, runner=daemon), given[0] if given else None


def test_flags_win_over_the_config_file(tmp_path: Path) -> None:
    """Edge case 49."""
    config = tmp_path / "nsqlookupd.toml"
    config.write_text('tombstone_lifetime = "10s"\nhttp_address = "from-file:1"\n')

    code, options = run(f"--config={config}", "--http-address=from-flag:2")

    assert code == 0
    assert options is not None
    assert (options.http_address, options.tombstone_lifetime_ns) == ("from-flag:2", 10_000_000_000)


def test_the_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--version") == (0, None)

    assert re.fullmatch(r"nsqlookupd v1\.3\.0 \(built w/python3\.\d+\.\d+\)\n", capsys.readouterr().out)


def test_a_duration_needs_its_unit(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--inactive-producer-timeout=5") == (2, None)

    output = capsys.readouterr().err
    assert output.startswith(
        'invalid value "5" for flag -inactive-producer-timeout: parse error\nUsage of nsqlookupd:'
    )


def test_a_bad_level_in_the_file_is_fatal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = tmp_path / "nsqlookupd.toml"
    config.write_text('log_level = "loud"\n')

    assert run(f"--config={config}") == (1, None)

    assert re.fullmatch(
        rf"\[nsqlookupd\] {DATE}\.\d{{6}} FATAL: failed parsing log_level loud\n", capsys.readouterr().err
    )


def test_an_address_that_is_taken_is_fatal(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"

        code = main([f"--tcp-address={address}", "--http-address=127.0.0.1:0"])

    assert code == 1
    last = capsys.readouterr().err.splitlines()[-1]
    text = f"failed to instantiate nsqlookupd - listen ({address}) failed - listen tcp {address}: bind: "
    assert re.fullmatch(
        rf"\[nsqlookupd\] {DATE}\.\d{{6}} FATAL: {re.escape(text)}address already in use", last
    )
