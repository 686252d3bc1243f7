import pytest

from nsqlake.apps.nsq_stat.options import NsqStatOptions, check
from nsqlake.runtime.durations import SECOND_NS
from nsqlake.runtime.errors import ConfigurationError, FlagError
from nsqlake.runtime.go_flags import parse_flags

CHANNEL = ("--topic=t", "--channel=c")
NSQD = "--nsqd-http-address=a:1"


def parse(*argv: str) -> NsqStatOptions:
    return check(NsqStatOptions(**parse_flags(NsqStatOptions, argv).values))


def test_defaults() -> None:
    options = parse(*CHANNEL, NSQD)

    assert options.interval_ns == 2 * SECOND_NS
    assert options.http_client_connect_timeout_ns == 2 * SECOND_NS
    assert options.http_client_request_timeout_ns == 5 * SECOND_NS
    assert options.count is None


def test_addresses_may_be_repeated() -> None:
    options = parse(*CHANNEL, NSQD, "--nsqd-http-address", "b:2")

    assert options.nsqd_http_addresses == ("a:1", "b:2")


@pytest.mark.parametrize(
    ("argv", "text"),
    [
        ((), "--topic and --channel are required"),
        (("--topic=t", "--interval=0s", NSQD), "--topic and --channel are required"),
        (("--channel=c", NSQD), "--topic and --channel are required"),
        (
            (*CHANNEL, "--interval=0s", "--http-client-connect-timeout=0s"),
            "--interval should be positive",
        ),
        (
            (*CHANNEL, "--http-client-connect-timeout=-1s", "--count=0"),
            "--http-client-connect-timeout should be positive",
        ),
        (
            (*CHANNEL, "--http-client-request-timeout=0", "--count=0"),
            "--http-client-request-timeout should be positive",
        ),
        ((*CHANNEL, "--count=0"), "--count should be positive"),
        ((*CHANNEL, "--count=-1", NSQD), "--count should be positive"),
        (CHANNEL, "--nsqd-http-address or --lookupd-http-address required"),
        (
            (*CHANNEL, NSQD, "--lookupd-http-address=b:1"),
            "use --nsqd-http-address or --lookupd-http-address not both",
        ),
        (
            (*CHANNEL, "--nsqd-http-address=http://a:1"),
            "--nsqd-http-address error - address should not contain scheme",
        ),
        (
            (*CHANNEL, "--lookupd-http-address=a:1", "--lookupd-http-address=https://a:1"),
            "--lookupd-http-address error - address should not contain scheme",
        ),
        (("--topic=bad!", "--channel=c", NSQD), "invalid topic name"),
        (("--topic=t", "--channel=\udcff", NSQD), "invalid channel name"),
    ],
)
def test_what_is_wrong_is_told_as_nsq_does(argv: tuple[str, ...], text: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        parse(*argv)

    assert str(caught.value) == text


def test_host_may_be_called_like_a_scheme() -> None:
    assert parse(*CHANNEL, "--nsqd-http-address=httpd1:4151").nsqd_http_addresses == ("httpd1:4151",)


@pytest.mark.parametrize("text", ["x", "0x1", "1.5", ""])
def test_count_that_is_no_number_breaks_the_command_line(text: str) -> None:
    with pytest.raises(FlagError) as caught:
        parse(f"--count={text}")

    reason = f'strconv.ParseInt: parsing "{text}": invalid syntax'
    assert str(caught.value) == f'invalid value "{text}" for flag -count: {reason}'
