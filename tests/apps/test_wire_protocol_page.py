from pathlib import Path

from nsqlake.apps.wire_protocol_page import command_table, main, renew
from nsqlake.wire.commands import COMMANDS

PAGE = Path(__file__).parents[2] / "docs" / "wire-protocol.md"


def test_the_page_shows_the_commands_that_the_reader_knows() -> None:
    page = PAGE.read_text(encoding="utf-8")

    assert page == renew(page), "run: python -m nsqlake.apps.wire_protocol_page docs/wire-protocol.md"


def test_every_command_has_its_row() -> None:
    rows = command_table().splitlines()[2:]

    assert [row.split()[1].strip("`") for row in rows] == list(COMMANDS)


def test_a_row_tells_where_a_command_is_legal() -> None:
    table = command_table()

    assert "| `RDY <count = 1>` | – | – | refused | yes | ignored |" in table


def test_the_command_renews_the_table_and_nothing_else(tmp_path: Path) -> None:
    copy = tmp_path / "page.md"
    copy.write_text(
        "before\n<!-- generated: commands -->\nold\n<!-- end: commands -->\nafter\n", encoding="utf-8"
    )

    code = main([str(copy)])

    text = copy.read_text(encoding="utf-8")
    assert (code, "old\n" in text) == (0, False)
    assert text.startswith("before\n<!-- generated: commands -->\n\n| command line |")
    assert text.endswith("\n<!-- end: commands -->\nafter\n")
