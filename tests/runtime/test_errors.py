from nsqlake.errors import NsqlakeError
from nsqlake.runtime.errors import ConfigFileError, ConfigurationError, FlagError, StartupError


def test_an_error_prints_its_reason_and_keeps_its_fields() -> None:
    error = ConfigurationError("node-id", 5000, "--node-id must be [0,1024)")

    assert str(error) == "--node-id must be [0,1024)"
    assert (error.option, error.value, error.reason) == ("node-id", 5000, str(error))


def test_the_step_of_a_failed_start_may_be_named() -> None:
    error = StartupError("failed to parse metadata", during="failed to load metadata")

    assert (str(error), error.during) == ("failed to parse metadata", "failed to load metadata")
    assert StartupError("x").during == ""


def test_all_of_them_are_errors_of_ours() -> None:
    assert issubclass(StartupError, NsqlakeError)
    assert isinstance(FlagError("x"), ConfigurationError)
    assert ConfigFileError("c.toml", "gone").path == "c.toml"
