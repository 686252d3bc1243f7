from pathlib import Path

from nsqlake.apps.configuration_page import PROGRAMS, main, renew

PAGE = Path(__file__).parents[2] / "docs" / "configuration.md"


def test_the_page_shows_the_options_that_the_daemons_have() -> None:
    page = PAGE.read_text(encoding="utf-8")

    assert page == renew(page), "run: python -m nsqlake.apps.configuration_page docs/configuration.md"


def test_the_command_renews_the_tables_and_nothing_else(tmp_path: Path) -> None:
    copy = tmp_path / "page.md"
    marked = "".join(f"<!-- generated: {name} -->\nold\n<!-- end: {name} -->\n" for name, _ in PROGRAMS)
    copy.write_text(f"before\n{marked}after\n", encoding="utf-8")

    code = main([str(copy)])

    text = copy.read_text(encoding="utf-8")
    assert code == 0
    assert text.startswith("before\n<!-- generated: nsqd -->\n\n### General\n")
    assert text.endswith("\n<!-- end: nsqlookupd -->\nafter\n")
    assert "old\n" not in text
