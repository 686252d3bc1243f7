"""A daemon's options as one typed struct.

Each field is `name: Annotated[type, Option(...)] = default`; flags, TOML keys, checks, help and the tables
of the documentation are derived from it. A daemon adds only the checks that concern several fields.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import msgspec

from nsqlake.runtime.errors import ConfigurationError
from nsqlake.runtime.option_kinds import Kind

_INITIALISMS = {
    "ca": "CA", "e2e": "E2E", "http": "HTTP", "https": "HTTPS", "id": "ID", "nsqlookupd": "NSQLookupd",
    "tcp": "TCP", "tls": "TLS", "udp": "UDP",
}  # fmt: skip


@dataclass(frozen=True)
class Limit:
    """What a single value must satisfy; `text` completes the sentence `--flag ...`."""

    holds: Callable[[Any], bool]
    text: str


NOT_NEGATIVE = Limit(lambda value: value >= 0, "must not be negative")
POSITIVE = Limit(lambda value: value > 0, "must be greater than 0")


@dataclass(frozen=True)
class Option:
    """One option: `key` and `go_field` only where they do not follow from the flag."""

    flag: str
    kind: Kind
    help: str
    limit: Limit | None = None
    group: str = "Options"
    key: str = ""
    go_field: str = ""
    in_config: bool = True
    deprecated: bool = False
    default_text: str = ""  # for documentation, when the default depends on the machine

    @property
    def config_key(self) -> str:
        return self.key or self.flag.replace("-", "_")

    @property
    def field_name_in_go(self) -> str:
        """NSQ names the field of its own struct when a config value cannot be used."""
        words = self.config_key.split("_")
        return self.go_field or "".join(_INITIALISMS.get(word, word.capitalize()) for word in words)


@dataclass(frozen=True)
class OptionField:
    """A field of an options struct."""

    name: str
    option: Option
    default: object


@cache
def option_fields(options_type: type[msgspec.Struct]) -> tuple[OptionField, ...]:
    """The fields in the order of their declaration."""
    hints = get_type_hints(options_type, include_extras=True)
    fields = []
    for field in msgspec.structs.fields(options_type):
        factory = field.default_factory
        default = field.default if factory is msgspec.NODEFAULT else factory()
        fields.append(OptionField(field.name, _option_of(hints[field.name], field.name), default))
    return tuple(fields)


def _option_of(hint: object, name: str) -> Option:
    if get_origin(hint) is Annotated:
        for extra in get_args(hint)[1:]:
            if isinstance(extra, Option):
                return extra
    raise TypeError(f"field {name} carries no Option")


def check_limits(options: msgspec.Struct, *names: str) -> None:
    """Raise ConfigurationError for the first value outside its limit; all fields, or only those named."""
    for field in option_fields(type(options)):
        limit = field.option.limit
        if limit is None or (names and field.name not in names):
            continue
        value = getattr(options, field.name)
        if not limit.holds(value):
            flag = field.option.flag
            raise ConfigurationError(flag, value, f"--{flag} {limit.text}")


def config_text(options: msgspec.Struct, key: str) -> str | None:
    """The value of a config key as `/config/<key>` shows it: strings raw, others JSON; None if unknown."""
    for field in option_fields(type(options)):
        if field.option.in_config and field.option.config_key == key:
            value = getattr(options, field.name)
            return value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return None
