"""The options of nsq_to_file: NSQ's, in NSQ's words."""

from functools import partial
from typing import Annotated

import msgspec

from nsqlake.apps.tool_support.option_types import (
    GENERAL,
    SOURCE,
    TUNING,
    ConsumerOpt,
    LookupdHttpAddresses,
    MaxInFlight,
    NsqdTcpAddresses,
    ShowVersion,
)
from nsqlake.apps.tool_support.sources import check_lookupd_addresses, check_nsqd_addresses, check_one_source
from nsqlake.runtime.durations import MINUTE_NS, SECOND_NS
from nsqlake.runtime.errors import ConfigurationError
from nsqlake.runtime.logs import LOG_LEVEL, LogLevel
from nsqlake.runtime.option_kinds import BOOL, DURATION, INT, STRING, STRING_LIST
from nsqlake.runtime.options import POSITIVE, Limit, Option, check_limits

NAME = "nsq_to_file"
SHOULD_BE_POSITIVE = Limit(lambda value: value > 0, "should be positive")
GZIP_LEVELS = range(1, 10)

_source = partial(Option, group=SOURCE)
_file = partial(Option, group="Files")
_rotation = partial(Option, group="Rotation and syncing")
_tuning = partial(Option, group=TUNING)
_general = partial(Option, group=GENERAL)


class NsqToFileOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Every flag; durations in nanoseconds, lists as tuples."""

    topics: Annotated[
        tuple[str, ...], _source("topic", STRING_LIST, "topic to archive; may be given several times")
    ] = ()
    topic_pattern: Annotated[
        str, _source("topic-pattern", STRING, "archive only topics in whose name this expression is found")
    ] = ""
    topic_refresh_ns: Annotated[
        int,
        _source(
            "topic-refresh",
            DURATION,
            "how often nsqlookupd is asked for new topics, if no --topic is given; 0 is never",
        ),
    ] = MINUTE_NS
    channel: Annotated[str, _source("channel", STRING, "channel to read from")] = "nsq_to_file"
    nsqd_tcp_addresses: NsqdTcpAddresses = ()
    lookupd_http_addresses: LookupdHttpAddresses = ()

    output_dir: Annotated[str, _file("output-dir", STRING, "directory for finished files")] = "/tmp"  # noqa: S108 (NSQ)
    work_dir: Annotated[
        str, _file("work-dir", STRING, "directory for unfinished files, if another; on the same file system")
    ] = ""
    filename_format: Annotated[
        str,
        _file(
            "filename-format",
            STRING,
            "names of files, with <TOPIC>, <HOST>, <PID>, <DATETIME>, and <REV> for a number that grows when "
            "a file exists; may contain /",
        ),
    ] = "<TOPIC>.<HOST><REV>.<DATETIME>.log"
    datetime_format: Annotated[
        str,
        _file(
            "datetime-format",
            STRING,
            "what <DATETIME> stands for, of %Y %y %m %B %b %d %H %I %M %S %p %A %a %Z %z %%, in local time",
        ),
    ] = "%Y-%m-%d_%H"
    host_identifier: Annotated[
        str,
        _file(
            "host-identifier",
            STRING,
            "what <HOST> stands for, with <SHORT_HOST> and <HOSTNAME>; the short name of the host if empty",
        ),
    ] = ""
    gzip: Annotated[bool, _file("gzip", BOOL, "compress; every sync ends a gzip member")] = False
    gzip_level: Annotated[int, _file("gzip-level", INT, "1 is fast, 9 is small")] = 6
    skip_empty_files: Annotated[
        bool, _file("skip-empty-files", BOOL, "begin a file only when there is a message for it")
    ] = False

    rotate_size_bytes: Annotated[
        int,
        _rotation("rotate-size", INT, "begin another file when one has more bytes, uncompressed; 0 is never"),
    ] = 0
    rotate_interval_ns: Annotated[
        int, _rotation("rotate-interval", DURATION, "begin another file when one is older; 0 is never")
    ] = 0
    sync_interval_ns: Annotated[
        int,
        _rotation("sync-interval", DURATION, "how often files are synced, and messages finished", POSITIVE),
    ] = 30 * SECOND_NS

    max_in_flight: MaxInFlight = 200
    consumer_opt: ConsumerOpt = ()
    http_client_connect_timeout_ns: Annotated[
        int,
        _tuning("http-client-connect-timeout", DURATION, "time to connect to nsqlookupd", SHOULD_BE_POSITIVE),
    ] = 2 * SECOND_NS
    http_client_request_timeout_ns: Annotated[
        int,
        _tuning("http-client-request-timeout", DURATION, "time for its answer", SHOULD_BE_POSITIVE),
    ] = 5 * SECOND_NS

    log_level: Annotated[str, _general("log-level", STRING, "debug, info, warn, error or fatal")] = "info"
    log_prefix: Annotated[str, _general("log-prefix", STRING, "begins every line of the log")] = (
        "[nsq_to_file] "
    )
    version: ShowVersion = False

    @property
    def level(self) -> LogLevel:
        try:
            return LOG_LEVEL.parse(self.log_level)
        except ValueError:
            raise ConfigurationError("log-level", self.log_level, "--log-level is invalid") from None


def validate(options: NsqToFileOptions) -> NsqToFileOptions:
    """Checked in NSQ's order; ConfigurationError for the first thing that cannot work."""
    if not options.channel:
        raise ConfigurationError("channel", "", "--channel is required")
    check_limits(options, "http_client_connect_timeout_ns", "http_client_request_timeout_ns")
    check_one_source(options.nsqd_tcp_addresses, options.lookupd_http_addresses, end=".")
    if options.gzip_level not in GZIP_LEVELS:
        reason = f"invalid --gzip-level value ({options.gzip_level}), should be 1-9"
        raise ConfigurationError("gzip-level", options.gzip_level, reason)
    if not options.topics and not options.topic_pattern:
        raise ConfigurationError("topic", (), "--topic or --topic-pattern required")
    if not options.topics and not options.lookupd_http_addresses:
        reason = "--lookupd-http-address must be specified when no --topic specified"
        raise ConfigurationError("lookupd-http-address", (), reason)
    check_lookupd_addresses(options.lookupd_http_addresses)
    check_nsqd_addresses(options.nsqd_tcp_addresses)
    check_limits(options)
    if options.max_in_flight < 1:
        raise ConfigurationError(
            "max-in-flight", options.max_in_flight, "--max-in-flight must be greater than 0"
        )
    return options
