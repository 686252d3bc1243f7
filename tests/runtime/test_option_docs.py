import pytest

from nsqlake.runtime.option_docs import markdown_tables, replace_generated, usage_text
from tests.runtime.sample_options import SampleOptions


def test_usage_shows_each_flag_with_type_default_and_meaning_by_group() -> None:
    lines = usage_text(SampleOptions, "sample").splitlines()

    assert lines[0] == "Usage of sample:"
    start = lines.index("First:")
    assert lines[start + 1 : start + 5] == [
        "  --count int (default 3)",
        "        how many; must not be negative [config key: counted]",
        "  --old bool (default false)",
        "        deprecated: no effect [not in the config file]",
    ]
    assert lines[start + 6 : start + 8] == ["Options:", "  --wait duration (default 1s)"]


def test_usage_quotes_strings_and_leaves_empty_defaults_out() -> None:
    lines = usage_text(SampleOptions, "sample").splitlines()

    assert '  --name string (default "me")' in lines
    assert "  --tcp-host list" in lines


def test_markdown_has_a_table_for_each_group() -> None:
    text = markdown_tables(SampleOptions)

    assert text.startswith("### First\n\n| flag |")
    assert "\n\n### Options\n\n| flag |" in text
    assert "| `--count` | `counted` | int | `3` | how many; must not be negative |\n" in text
    assert "| `--old` | – | bool | `false` | deprecated: no effect |\n" in text


def test_markdown_is_the_same_on_every_machine_and_escapes_bars() -> None:
    text = markdown_tables(SampleOptions)

    assert "| `--name` | `name` | string | this user | who |\n" in text
    assert "| whether a\\|b |\n" in text


def test_only_the_part_between_the_markers_is_replaced() -> None:
    page = "head\n<!-- generated: x -->\nold\n<!-- end: x -->\ntail\n"

    renewed = replace_generated(page, "x", "new\n")

    assert renewed == "head\n<!-- generated: x -->\n\nnew\n\n<!-- end: x -->\ntail\n"
    assert replace_generated(renewed, "x", "new\n") == renewed


def test_a_page_without_markers_is_a_mistake() -> None:
    with pytest.raises(ValueError, match="no markers for x"):
        replace_generated("<!-- generated: x -->", "x", "new")
