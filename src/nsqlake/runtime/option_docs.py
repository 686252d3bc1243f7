"""Help text and documentation, derived from an options struct."""

import textwrap
from itertools import groupby

import msgspec

from nsqlake.runtime.go_text import go_quote
from nsqlake.runtime.option_kinds import STRING
from nsqlake.runtime.options import Option, OptionField, option_fields

HELP_WIDTH = 100
INTRODUCTION = """\
A flag is written -name or --name, its value --name=value or --name value. A flag of type bool is true
when it stands alone; to switch it off write --name=false (in --name false the word ends the flags).
Durations are numbers with a unit, such as 250ms, 1m30s or 2h; units are ns, us, ms, s, m and h.
Each flag is also a key of the TOML file named by --config, spelled with _ for -, unless said otherwise;
the flag wins over the file."""


def usage_text(options_type: type[msgspec.Struct], program: str) -> str:
    """What `--help` of a daemon prints."""
    lines = [f"Usage of {program}:", f"  {program} [--flag=value ...]", "", INTRODUCTION]
    return "\n".join([*lines, *flag_lines(options_type)]) + "\n"


def flag_lines(options_type: type[msgspec.Struct], *, has_config: bool = True) -> list[str]:
    """Every flag with its type, default and meaning, by group."""
    lines = []
    for group, fields in groupby(option_fields(options_type), key=lambda field: field.option.group):
        lines += ["", f"{group}:"]
        for field in fields:
            lines += _usage_lines(field, has_config=has_config)
    return lines


def _usage_lines(field: OptionField, *, has_config: bool) -> list[str]:
    option = field.option
    default = _shown_default(field)
    head = f"  --{option.flag} {option.kind.word}" + (f" (default {default})" if default else "")
    notes = [_meaning(option)]
    if has_config and not option.in_config:
        notes.append("[not in the config file]")
    elif has_config and option.key:
        notes.append(f"[config key: {option.key}]")
    text = textwrap.fill(
        " ".join(notes),
        HELP_WIDTH,
        initial_indent=" " * 8,
        subsequent_indent=" " * 8,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return [head, text]


def _meaning(option: Option) -> str:
    meaning = f"{option.help}; {option.limit.text}" if option.limit else option.help
    return f"deprecated: {meaning}" if option.deprecated else meaning


def _shown_default(field: OptionField) -> str:
    if field.default in ("", ()):
        return ""
    shown = field.option.kind.show(field.default)
    return go_quote(shown) if field.option.kind.word == STRING.word else shown


def markdown_tables(options_type: type[msgspec.Struct]) -> str:
    """One table per group, with the same text on every machine."""
    parts = []
    for group, fields in groupby(option_fields(options_type), key=lambda field: field.option.group):
        rows = ["| flag | config key | type | default | meaning |", "|---|---|---|---|---|"]
        rows += [_markdown_row(field) for field in fields]
        parts.append(f"### {group}\n\n" + "\n".join(rows) + "\n")
    return "\n".join(parts)


def _markdown_row(field: OptionField) -> str:
    option = field.option
    key = f"`{option.config_key}`" if option.in_config else "–"
    shown = _shown_default(field)
    default = option.default_text or (f"`{shown}`" if shown else "–")
    cells = (f"`--{option.flag}`", key, option.kind.word, default, _meaning(option))
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def replace_generated(page: str, name: str, text: str) -> str:
    """`page` with the part between the markers of `name` replaced by `text`."""
    begin, end = f"<!-- generated: {name} -->", f"<!-- end: {name} -->"
    head, found_begin, rest = page.partition(begin)
    _, found_end, tail = rest.partition(end)
    if not found_begin or not found_end:
        raise ValueError(f"the page has no markers for {name}")
    return f"{head}{begin}\n\n{text}\n{end}{tail}"
