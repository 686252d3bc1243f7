"""Options that every daemon has, as types for the fields of its options struct."""

from functools import partial
from typing import Annotated

from nsqlake.runtime.logs import LOG_LEVEL, LogLevel
from nsqlake.runtime.option_kinds import BOOL, STRING
from nsqlake.runtime.options import Option

__all__ = [
    "ConfigPath",
    "LeastLogLevel",
    "LogPrefix",
    "ShowVersion",
    "Verbose",
]

_general = partial(Option, group="General")

ShowVersion = Annotated[bool, _general("version", BOOL, "print the version and exit", in_config=False)]
ConfigPath = Annotated[str, _general("config", STRING, "path of a TOML config file", in_config=False)]
LeastLogLevel = Annotated[
    LogLevel,
    _general("log-level", LOG_LEVEL, "least severe lines to log: debug, info, warn, error or fatal"),
]
LogPrefix = Annotated[str, _general("log-prefix", STRING, "text before every log line")]
Verbose = Annotated[
    bool, _general("verbose", BOOL, "no effect, use --log-level", in_config=False, deprecated=True)
]
