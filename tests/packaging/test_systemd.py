"""The units and their sample configurations."""

import configparser
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import msgspec
import pytest

from nsqlake.nsqd import options as nsqd
from nsqlake.nsqd.options import NsqdOptions
from nsqlake.nsqlookupd import options as nsqlookupd
from nsqlake.nsqlookupd.options import NsqlookupdOptions
from nsqlake.runtime.go_flags import parse_flags
from nsqlake.runtime.options import option_fields
from nsqlake.runtime.toml_options import load_toml, resolve_options
from tests.architecture.source import ROOT

FOLDER = ROOT / "packaging" / "systemd"
OPTIONS: dict[str, type[msgspec.Struct]] = {"nsqd": NsqdOptions, "nsqlookupd": NsqlookupdOptions}

each_daemon = pytest.mark.parametrize("daemon", OPTIONS)


def unit(daemon: str) -> Path:
    return FOLDER / f"{daemon}.service"


def sample(daemon: str) -> Path:
    return FOLDER / f"{daemon}.toml"


def service(daemon: str) -> configparser.SectionProxy:
    parser = configparser.ConfigParser(interpolation=None, strict=True, delimiters="=")
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read_string(unit(daemon).read_text(encoding="utf-8"))
    return parser["Service"]


def with_suggestions(daemon: str) -> dict[str, object]:
    """The sample's keys, and those that its comments suggest."""
    text = sample(daemon).read_text(encoding="utf-8")
    suggested = [line.removeprefix("# ") for line in text.splitlines() if re.match(r"# \w+ = ", line)]
    return {**tomllib.loads(text), **{k: v for line in suggested for k, v in tomllib.loads(line).items()}}


@each_daemon
def test_the_unit_starts_its_daemon_with_flags_it_knows(daemon: str) -> None:
    program, *flags = shlex.split(service(daemon)["ExecStart"])

    parsed = parse_flags(OPTIONS[daemon], flags)
    assert Path(program).name == daemon
    assert parsed.arguments == []
    assert Path(str(parsed.values["config"])).name == sample(daemon).name


def test_the_unit_of_nsqd_gives_it_a_directory_of_its_own() -> None:
    parsed = parse_flags(NsqdOptions, shlex.split(service("nsqd")["ExecStart"])[1:])

    assert parsed.values["data_path"] == f"/var/lib/{service('nsqd')['StateDirectory']}"
    assert service("nsqd")["StateDirectoryMode"] == "0700"


@each_daemon
@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("DynamicUser", "yes"),
        ("NoNewPrivileges", "yes"),
        ("ProtectSystem", "strict"),
        ("ProtectHome", "yes"),
        ("CapabilityBoundingSet", ""),
        ("UMask", "0077"),
        ("Restart", "on-failure"),
    ],
)
def test_the_unit_is_hardened(daemon: str, key: str, value: str) -> None:
    assert service(daemon)[key] == value


@each_daemon
def test_systemd_accepts_the_unit(daemon: str, tmp_path: Path) -> None:
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        pytest.skip("there is no systemd-analyze here")
    # It wants the program to exist, which on this machine is somewhere else.
    program = shlex.split(service(daemon)["ExecStart"])[0]
    copy = tmp_path / unit(daemon).name
    text = unit(daemon).read_text(encoding="utf-8").replace(program, sys.executable)
    copy.write_text(text, encoding="utf-8")

    checked = subprocess.run(
        [analyze, "verify", "--man=no", str(copy)], capture_output=True, text=True, timeout=60, check=False
    )

    complaints = [line for line in checked.stderr.splitlines() if copy.name in line]
    if checked.returncode and not complaints:
        pytest.skip(f"systemd-analyze cannot run here: {checked.stderr.strip()}")
    assert complaints == []


def test_the_samples_are_accepted_as_they_are_and_serve_only_this_machine() -> None:
    broker = nsqd.validate(resolve_options(NsqdOptions, {}, load_toml(str(sample("nsqd")))))
    lookup = nsqlookupd.validate(resolve_options(NsqlookupdOptions, {}, load_toml(str(sample("nsqlookupd")))))

    for address in (broker.tcp_address, broker.http_address, lookup.tcp_address, lookup.http_address):
        assert address.startswith("127.0.0.1:")


@each_daemon
def test_the_samples_name_only_keys_there_are(daemon: str) -> None:
    known = {field.option.config_key for field in option_fields(OPTIONS[daemon])}

    assert with_suggestions(daemon).keys() <= known


def test_the_samples_are_accepted_with_their_suggestions() -> None:
    broker = resolve_options(NsqdOptions, {}, with_suggestions("nsqd"))
    lookup = nsqlookupd.validate(resolve_options(NsqlookupdOptions, {}, with_suggestions("nsqlookupd")))

    assert broker.tls_client_auth_policy == lookup.tls_client_auth_policy == "require-verify"
    assert broker.auth_http_addresses == ("https://auth.example.com",)
    assert lookup.tls_match_broadcast_address
