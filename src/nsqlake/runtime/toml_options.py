"""Options from a TOML file: loading it, and turning its values into those of the struct."""

import os
import tomllib
from collections.abc import Mapping
from typing import TypeVar

import msgspec

from nsqlake.runtime.errors import CoercionError, ConfigFileError, ConfigurationError
from nsqlake.runtime.go_text import go_value
from nsqlake.runtime.options import Option, OptionField, option_fields

OptionsT = TypeVar("OptionsT", bound=msgspec.Struct)


def load_toml(path: str) -> dict[str, object]:
    """The tables of the file at `path`; ConfigFileError says why it cannot be used."""
    try:
        with open(path, "rb") as file:
            return tomllib.load(file)
    except OSError as error:
        verb = "read" if isinstance(error, IsADirectoryError) else "open"
        raise ConfigFileError(path, f"{verb} {path}: {os.strerror(error.errno or 0).lower()}") from error
    except UnicodeDecodeError as error:
        raise ConfigFileError(path, f"byte {error.start} is not valid UTF-8") from error
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise ConfigFileError(path, str(error)) from error


def resolve_options(
    options_type: type[OptionsT], flags: Mapping[str, object], tables: Mapping[str, object]
) -> OptionsT:
    """The options: a flag (by field name) wins over a key of the config file, which wins over the default.

    Unknown keys are ignored, and keys that a flag overrides are not even read: so does NSQ. Enumerations it
    checks always and before all others.
    """
    present = [field for field in option_fields(options_type) if _is_set(field.option, tables)]
    present.sort(key=lambda field: not field.option.kind.is_enum)
    values = {
        field.name: _coerce(field, tables[field.option.config_key])
        for field in present
        if field.option.kind.is_enum or field.name not in flags
    }
    return options_type(**{**values, **flags})


def _is_set(option: Option, tables: Mapping[str, object]) -> bool:
    return option.in_config and option.config_key in tables


def _coerce(field: OptionField, value: object) -> object:
    option = field.option
    try:
        return option.kind.coerce(value)
    except ValueError as error:
        shown = go_value(value)
        if option.kind.is_enum:
            text = f"failed parsing {option.config_key} {shown}"
            raise ConfigurationError(option.config_key, value, text) from error
        raise CoercionError(
            option.config_key,
            shown,
            str(error),
            default=option.kind.show(field.default),
            field=option.field_name_in_go,
        ) from error
