"""Go's flag grammar: `-name`, `--name`, `--name=value`, `--name value`; booleans never take the next word."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import msgspec

from nsqlake.runtime.errors import FlagError, FloatFlagError
from nsqlake.runtime.go_text import go_quote
from nsqlake.runtime.option_kinds import NotAFloatError
from nsqlake.runtime.options import OptionField, option_fields

HELP_NAMES = ("h", "help")


@dataclass
class ParsedFlags:
    """What the command line says, by field name; `arguments` is what stood behind the flags."""

    values: dict[str, object] = field(default_factory=dict)
    arguments: list[str] = field(default_factory=list)
    help_requested: bool = False


def parse_flags(options_type: type[msgspec.Struct], argv: Sequence[str]) -> ParsedFlags:
    """Parse up to the first word that is no flag, `--`, or a request for help; raises FlagError."""
    known = {option_field.option.flag: option_field for option_field in option_fields(options_type)}
    parsed = ParsedFlags()
    words = list(argv)
    while words:
        word = words[0]
        if len(word) < 2 or word[0] != "-":
            break
        words.pop(0)
        if word == "--":
            break
        name, has_value, text = _split(word)
        if name not in known:
            if name in HELP_NAMES:
                parsed.help_requested = True
                break
            raise FlagError(f"flag provided but not defined: -{name}", option=name)
        target = known[name]
        if not has_value:
            text = _implied_value(target, words)
        _assign(parsed.values, target, text)
    parsed.arguments = words
    return parsed


def _split(word: str) -> tuple[str, bool, str]:
    body = word[2:] if word.startswith("--") else word[1:]
    if not body or body[0] in "-=":
        raise FlagError(f"bad flag syntax: {word}")
    name, equals, text = body.partition("=")
    return name, bool(equals), text


def _implied_value(target: OptionField, words: list[str]) -> str:
    if target.option.kind.is_boolean:
        return "true"
    if not words:
        flag = target.option.flag
        raise FlagError(f"flag needs an argument: -{flag}", option=flag)
    return words.pop(0)


def _assign(values: dict[str, object], target: OptionField, text: str) -> None:
    flag, kind = target.option.flag, target.option.kind
    try:
        value = kind.parse(text)
    except NotAFloatError as error:
        raise FloatFlagError(flag, str(error)) from None
    except ValueError as error:
        what = (
            f"boolean value {go_quote(text)} for" if kind.is_boolean else f"value {go_quote(text)} for flag"
        )
        raise FlagError(f"invalid {what} -{flag}: {error}", option=flag, value=text) from None
    if target.name in values:
        value = kind.repeat(values[target.name], value)
    values[target.name] = value
