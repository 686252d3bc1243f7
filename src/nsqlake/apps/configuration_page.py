"""Renews the tables in a page: `python -m nsqlake.apps.configuration_page docs/configuration.md`."""

import sys
from collections.abc import Sequence

import msgspec

from nsqlake.nsqd.options import NsqdOptions
from nsqlake.nsqlookupd.options import NsqlookupdOptions
from nsqlake.runtime.option_docs import markdown_tables, replace_generated

PROGRAMS: tuple[tuple[str, type[msgspec.Struct]], ...] = (
    ("nsqd", NsqdOptions),
    ("nsqlookupd", NsqlookupdOptions),
)


def renew(page: str) -> str:
    for program, options_type in PROGRAMS:
        page = replace_generated(page, program, markdown_tables(options_type))
    return page


def main(argv: Sequence[str] | None = None) -> int:
    """Rewrite each page named on the command line."""
    for path in sys.argv[1:] if argv is None else argv:
        with open(path, encoding="utf-8") as file:
            page = file.read()
        with open(path, "w", encoding="utf-8") as file:
            file.write(renew(page))
    return 0


if __name__ == "__main__":
    sys.exit(main())
