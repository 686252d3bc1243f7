"""Errors of the runtime.

NsqlakeError
├── ConfigurationError     an option the daemon cannot work with: option, value, reason
│   ├── FlagError          the command line breaks Go's flag grammar: answered with the usage text
│   ├── FloatFlagError     a list of floats on the command line holds something else
│   ├── CoercionError      a key of the config file holds a value of the wrong type
│   └── ConfigFileError    the config file cannot be read or is not TOML
└── StartupError           the daemon cannot start: reason, and during which step
"""

from nsqlake.errors import NsqlakeError


class ConfigurationError(NsqlakeError):
    """An option the daemon cannot work with; the message is the reason, ready to print."""

    def __init__(self, option: str, value: object, reason: str) -> None:
        super().__init__(reason)
        self.option, self.value, self.reason = option, value, reason


class FlagError(ConfigurationError):
    """The command line cannot be parsed."""

    def __init__(self, reason: str, *, option: str = "", value: str = "") -> None:
        super().__init__(option, value, reason)


class FloatFlagError(ConfigurationError):
    """NSQ reports this one without usage and with exit code 1."""

    def __init__(self, option: str, value: str) -> None:
        super().__init__(option, value, f"Could not parse: {value}")


class CoercionError(ConfigurationError):
    """A config key holds a value that its option cannot take; values and names in Go's notation."""

    def __init__(self, option: str, value: str, reason: str, *, default: str, field: str) -> None:
        text = f"Resolve failed to coerce value {value} ({default}) for field {field} - {reason}"
        super().__init__(option, value, text)
        self.default, self.field = default, field


class ConfigFileError(ConfigurationError):
    """The config file cannot be loaded."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__("config", path, f"failed to load config file {path} - {reason}")
        self.path = path


class StartupError(NsqlakeError):
    """The daemon cannot start; `during` names the step when it is not the start as a whole."""

    def __init__(self, reason: str, *, during: str = "") -> None:
        super().__init__(reason)
        self.reason, self.during = reason, during
