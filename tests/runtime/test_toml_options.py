from pathlib import Path

import pytest

from nsqlake.runtime.errors import CoercionError, ConfigFileError, ConfigurationError
from nsqlake.runtime.toml_options import load_toml, resolve_options
from tests.runtime.sample_options import SampleOptions


def test_a_flag_wins_over_the_file_and_the_file_over_the_default() -> None:
    tables = {"counted": 5, "wait": "5s", "tcp_hosts": ["a", "b"]}

    options = resolve_options(SampleOptions, {"count": 7, "tcp_hosts": ("c",)}, tables)

    assert (options.count, options.wait_ns, options.tcp_hosts, options.name) == (
        7,
        5_000_000_000,
        ("c",),
        "me",
    )


def test_unknown_keys_and_flags_outside_the_config_are_ignored() -> None:
    tables = {"count": 9, "tcp-hosts": ["a"], "old": True, "table": {"wait": "1s"}}

    assert resolve_options(SampleOptions, {}, tables) == SampleOptions()


def test_a_value_of_the_wrong_type_names_gos_field_and_the_default() -> None:
    with pytest.raises(CoercionError) as caught:
        resolve_options(SampleOptions, {}, {"wait": "30"})

    assert str(caught.value) == (
        'Resolve failed to coerce value 30 (1s) for field Wait - time: missing unit in duration "30"'
    )


def test_a_bad_value_that_a_flag_overrides_does_not_matter() -> None:
    assert resolve_options(SampleOptions, {"wait_ns": 5}, {"wait": "30"}).wait_ns == 5


def test_a_bad_word_of_an_enumeration_is_told_first_and_in_short() -> None:
    with pytest.raises(ConfigurationError) as caught:
        resolve_options(SampleOptions, {"colour": 1}, {"wait": "30", "colour": "green"})

    assert str(caught.value) == "failed parsing colour green"
    assert not isinstance(caught.value, CoercionError)


def test_a_file_is_read_as_toml(tmp_path: Path) -> None:
    path = tmp_path / "c.toml"
    path.write_text('counted = 5\nname = "you"\n')

    assert load_toml(str(path)) == {"counted": 5, "name": "you"}


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"a = 1\na = 2\n", "Cannot overwrite a value"),
        (b"broken", "Expected '=' after a key"),
        (b'a = "\xff"', "is not valid UTF-8"),
        (b"a = " + b"[" * 100_000, "recursion"),
    ],
)
def test_a_file_that_is_no_toml_is_refused(tmp_path: Path, content: bytes, reason: str) -> None:
    path = tmp_path / "c.toml"
    path.write_bytes(content)

    with pytest.raises(ConfigFileError, match=f"^failed to load config file {path} - .*{reason}"):
        load_toml(str(path))


def test_a_file_that_cannot_be_read_is_told_in_gos_words(tmp_path: Path) -> None:
    missing = tmp_path / "none"

    with pytest.raises(ConfigFileError, match=f"- open {missing}: no such file or directory$"):
        load_toml(str(missing))
    with pytest.raises(ConfigFileError, match=f"- read {tmp_path}: is a directory$"):
        load_toml(str(tmp_path))
