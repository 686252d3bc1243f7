"""The unit and its sample configuration."""

import configparser
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from nsqlake.nsqd.options import NsqdOptions, validate
from nsqlake.runtime.go_flags import parse_flags
from nsqlake.runtime.options import option_fields
from nsqlake.runtime.toml_options import load_toml, resolve_options
from tests.architecture.source import ROOT

FOLDER = ROOT / "packaging" / "systemd"
UNIT = FOLDER / "nsqd.service"
SAMPLE = FOLDER / "nsqd.toml"


def service() -> configparser.SectionProxy:
    parser = configparser.ConfigParser(interpolation=None, strict=True, delimiters="=")
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read_string(UNIT.read_text(encoding="utf-8"))
    return parser["Service"]


def test_the_unit_starts_nsqd_with_flags_it_knows() -> None:
    program, *flags = shlex.split(service()["ExecStart"])

    parsed = parse_flags(NsqdOptions, flags)
    assert Path(program).name == "nsqd"
    assert parsed.arguments == []
    assert parsed.values["data_path"] == f"/var/lib/{service()['StateDirectory']}"
    assert Path(str(parsed.values["config"])).name == SAMPLE.name


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("DynamicUser", "yes"),
        ("NoNewPrivileges", "yes"),
        ("ProtectSystem", "strict"),
        ("ProtectHome", "yes"),
        ("CapabilityBoundingSet", ""),
        ("StateDirectoryMode", "0700"),
        ("UMask", "0077"),
        ("Restart", "on-failure"),
    ],
)
def test_the_unit_is_hardened(key: str, value: str) -> None:
    assert service()[key] == value


def test_systemd_accepts_the_unit(tmp_path: Path) -> None:
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        pytest.skip("there is no systemd-analyze here")
    # It wants the program to exist, which on this machine is somewhere else.
    program = shlex.split(service()["ExecStart"])[0]
    copy = tmp_path / "nsqd.service"
    copy.write_text(UNIT.read_text(encoding="utf-8").replace(program, sys.executable), encoding="utf-8")

    checked = subprocess.run(
        [analyze, "verify", "--man=no", str(copy)], capture_output=True, text=True, timeout=60, check=False
    )

    complaints = [line for line in checked.stderr.splitlines() if "nsqd.service" in line]
    if checked.returncode and not complaints:
        pytest.skip(f"systemd-analyze cannot run here: {checked.stderr.strip()}")
    assert complaints == []


def test_the_sample_is_accepted_as_it_is_and_serves_only_this_machine() -> None:
    options = validate(resolve_options(NsqdOptions, {}, load_toml(str(SAMPLE))))

    assert options.tcp_address.startswith("127.0.0.1:")
    assert options.http_address.startswith("127.0.0.1:")


def test_the_sample_is_accepted_with_its_suggestions_and_names_only_keys_there_are(tmp_path: Path) -> None:
    text = SAMPLE.read_text(encoding="utf-8")
    suggested = [line.removeprefix("# ") for line in text.splitlines() if re.match(r"# \w+ = ", line)]
    tables = {**tomllib.loads(text), **{k: v for line in suggested for k, v in tomllib.loads(line).items()}}

    options = resolve_options(NsqdOptions, {}, tables)

    assert tables.keys() <= {field.option.config_key for field in option_fields(NsqdOptions)}
    assert options.tls_client_auth_policy == "require-verify"
    assert options.auth_http_addresses == ("https://auth.example.com",)
    assert len(suggested) >= 10
