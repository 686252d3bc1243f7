import pytest

from nsqlake.apps.nsq_to_file.options import NsqToFileOptions, validate
from nsqlake.runtime.durations import format_duration
from nsqlake.runtime.errors import ConfigurationError, FlagError
from nsqlake.runtime.go_flags import parse_flags
from nsqlake.runtime.logs import LogLevel
from nsqlake.runtime.options import option_fields

SOURCE = ["--topic=t", "--nsqd-tcp-address=a:1"]


def parsed(*words: str) -> NsqToFileOptions:
    return NsqToFileOptions(**parse_flags(NsqToFileOptions, words).values)  # type: ignore[arg-type]


def test_flags_and_defaults_are_those_of_nsq() -> None:
    shown = {
        field.option.flag: field.option.kind.show(field.default) for field in option_fields(NsqToFileOptions)
    }

    assert shown == {
        "topic": "[]",
        "topic-pattern": "",
        "topic-refresh": "1m0s",
        "channel": "nsq_to_file",
        "nsqd-tcp-address": "[]",
        "lookupd-http-address": "[]",
        "output-dir": "/tmp",
        "work-dir": "",
        "filename-format": "<TOPIC>.<HOST><REV>.<DATETIME>.log",
        "datetime-format": "%Y-%m-%d_%H",
        "host-identifier": "",
        "gzip": "false",
        "gzip-level": "6",
        "skip-empty-files": "false",
        "rotate-size": "0",
        "rotate-interval": "0s",
        "sync-interval": "30s",
        "max-in-flight": "200",
        "consumer-opt": "",
        "http-client-connect-timeout": "2s",
        "http-client-request-timeout": "5s",
        "log-level": "info",
        "log-prefix": "[nsq_to_file] ",
        "version": "false",
    }


def test_every_flag_arrives_in_its_field() -> None:
    options = parsed("--topic=a", "--topic", "b", "-gzip", "--rotate-size=0x10", "--rotate-interval=1h30m")

    assert (options.topics, options.gzip, options.rotate_size_bytes) == (("a", "b"), True, 16)
    assert format_duration(options.rotate_interval_ns) == "1h30m0s"


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--channel="], "--channel is required"),
        ([*SOURCE, "--http-client-connect-timeout=0"], "--http-client-connect-timeout should be positive"),
        ([*SOURCE, "--http-client-request-timeout=-1s"], "--http-client-request-timeout should be positive"),
        (["--topic=t"], "--nsqd-tcp-address or --lookupd-http-address required."),
        (
            [*SOURCE, "--lookupd-http-address=a:2"],
            "use --nsqd-tcp-address or --lookupd-http-address not both",
        ),
        ([*SOURCE, "--gzip-level=0"], "invalid --gzip-level value (0), should be 1-9"),
        ([*SOURCE, "--gzip-level=10"], "invalid --gzip-level value (10), should be 1-9"),
        (["--nsqd-tcp-address=a:1"], "--topic or --topic-pattern required"),
        (
            ["--nsqd-tcp-address=a:1", "--topic-pattern=x"],
            "--lookupd-http-address must be specified when no --topic specified",
        ),
    ],
)
def test_checks_of_nsq(words: list[str], text: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        validate(parsed(*words))

    assert str(caught.value) == text


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--sync-interval=0"], "--sync-interval must be greater than 0"),
        (["--sync-interval=-1s"], "--sync-interval must be greater than 0"),
        (["--max-in-flight=0"], "--max-in-flight must be greater than 0"),
        (["--max-in-flight=-1"], "--max-in-flight must be greater than 0"),
    ],
)
def test_what_would_crash_or_stall_the_go_tool_is_refused(words: list[str], text: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        validate(parsed(*SOURCE, *words))

    assert str(caught.value) == text


def test_a_bad_consumer_option_is_refused() -> None:
    with pytest.raises(
        FlagError, match='invalid value "bogus,1" for flag -consumer-opt: invalid option bogus'
    ):
        parsed("--consumer-opt=bogus,1")


def test_addresses_without_a_port_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="missing port"):
        validate(parsed("--topic=t", "--lookupd-http-address=localhost"))
    with pytest.raises(ConfigurationError, match="missing port in address"):
        validate(parsed("--topic=t", "--nsqd-tcp-address=localhost"))


def test_topics_or_a_pattern_will_do() -> None:
    validate(parsed(*SOURCE))
    validate(parsed("--topic-pattern=x", "--lookupd-http-address=a:1"))
    validate(parsed("--topic=x", "--topic-pattern=x", "--lookupd-http-address=http://a:1/x"))


def test_log_levels_are_words_in_any_case() -> None:
    assert parsed("--log-level=WARN").level is LogLevel.WARN
    with pytest.raises(ConfigurationError, match=r"^--log-level is invalid$"):
        parsed("--log-level=bogus").level  # noqa: B018
