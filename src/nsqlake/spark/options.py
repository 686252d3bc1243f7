"""The options of the data source: what the user wrote, checked, as one value.

Names are those of Spark's Kafka source where it has them. Spark hands them over in lower case.
"""

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

from nsqlake.spark.errors import OptionError
from nsqlake.spark.offsets import SourceKey
from nsqlake.wire.names import is_ephemeral, is_valid_name

__all__ = [
    "AT_LEAST_ONCE",
    "CHANNEL",
    "COLUMNS",
    "EARLIEST",
    "EXACTLY_ONCE",
    "LATEST",
    "Access",
    "Bound",
    "ReadOptions",
    "WriteOptions",
    "parse_access",
    "parse_columns",
    "parse_read",
    "parse_write",
]

COLUMNS = ("body", "id", "offset", "timestamp", "topic", "node")
EARLIEST, LATEST = -2, -1  # Kafka's numbers
CHANNEL = "channel"
EXACTLY_ONCE, AT_LEAST_ONCE = "exactly-once", "at-least-once"

_WORDS = {"earliest": EARLIEST, "latest": LATEST}
_NOTHING = "would read nothing: an end cannot be earliest"
_SPARKS_OWN = frozenset({"path", "checkpointlocation", "queryname", "triggeronce"})
_ACCESS_NAMES = (
    "nsqd",
    "lookupd",
    "authSecret",
    "authSecretFile",
    "authSecretEnv",
    "tlsRootCaFile",
    "tlsCert",
    "tlsKey",
    "tlsInsecureSkipVerify",
    "requestTimeout",
    "retries",
)
_READ_NAMES = (
    "topic",
    "topics",
    "topicPattern",
    "subscribe",
    "subscribePattern",
    "startingOffsets",
    "startingTimestamp",
    "endingOffsets",
    "endingTimestamp",
    "maxOffsetsPerTrigger",
    "maxBytesPerTrigger",
    "minPartitions",
    "failOnDataLoss",
    "channel",
    "columns",
    "mode",
    "maxRequestBytes",
    "walDir",
)
_LOG_ONLY_NAMES = ("startingOffsets", "startingTimestamp", "minPartitions", "maxRequestBytes")
_NAMES = {name.lower(): name for name in (*_ACCESS_NAMES, *_READ_NAMES)}
_WRITE_NAMES = {name.lower(): name for name in (*_ACCESS_NAMES, "topic", "delivery", "maxRequestBytes")}
_NSQD_PORT, _NSQD_HTTPS_PORT, _LOOKUPD_PORT = 4151, 4152, 4161  # NSQ's defaults


@dataclass(frozen=True)
class Access:
    """Where the brokers are, and how to be let in."""

    nsqd: tuple[str, ...] = ()
    lookupd: tuple[str, ...] = ()
    secret: str = field(default="", repr=False)
    root_ca_file: str = ""
    cert_file: str = ""
    key_file: str = ""
    verify: bool = True
    timeout_s: float = 30.0
    retries: int = 5


@dataclass(frozen=True)
class Bound:
    """Where reading begins or ends: a word for all logs, single offsets, or a time."""

    default: int | str = EARLIEST  # EARLIEST, LATEST or "channel"
    offsets: Mapping[SourceKey, int] | None = None
    timestamp_ns: int | None = None


@dataclass(frozen=True)
class ReadOptions:
    """What a query reads. `pattern` is "" when the topics are named."""

    access: Access
    topics: tuple[str, ...] = ()
    pattern: str = ""
    starting: Bound = Bound()
    ending: Bound = Bound(LATEST)
    max_messages: int | None = None
    max_bytes: int | None = None
    min_partitions: int | None = None
    fail_on_data_loss: bool = True
    channel: str = ""
    columns: tuple[str, ...] = COLUMNS
    mode: str = "log"
    request_bytes: int = 32 * 1024 * 1024
    wal_dir: str = ""


@dataclass(frozen=True)
class WriteOptions:
    """Where rows are published to. `topic` is "" when a column names it."""

    access: Access
    topic: str = ""
    delivery: str = AT_LEAST_ONCE
    checkpoint: str = ""
    request_bytes: int = 2 * 1024 * 1024  # more is slower; nsqd takes 5 MiB unless told otherwise


class _Given:
    """The options as they were given, looked up by their names in any case."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._options = {name.lower(): value for name, value in options.items()}

    def refuse_unknown(self, known: Mapping[str, str]) -> None:
        for name in self._options:
            if name not in known and name not in _SPARKS_OWN:
                raise OptionError(name, None, f"is not known; there are {', '.join(sorted(known.values()))}")

    def text(self, name: str, default: str = "") -> str:
        return self._options.get(name.lower(), default).strip()

    def has(self, name: str) -> bool:
        return name.lower() in self._options

    def words(self, name: str) -> tuple[str, ...]:
        return tuple(word for word in (part.strip() for part in self.text(name).split(",")) if word)

    def integer(self, name: str, *, least: int = 1) -> int | None:
        if not self.has(name):
            return None
        text = self.text(name)
        if not re.fullmatch(r"[0-9]{1,18}", text) or int(text) < least:
            raise OptionError(name, text, f"must be a whole number of at least {least}")
        return int(text)

    def flag(self, name: str, *, default: bool) -> bool:
        text = self.text(name, str(default)).lower()
        if text not in ("true", "false"):
            raise OptionError(name, text, "must be true or false")
        return text == "true"

    def seconds(self, name: str, default: float) -> float:
        text = self.text(name, str(default))
        try:
            value = float(text.removesuffix("s"))
        except ValueError:
            raise OptionError(name, text, "must be a number of seconds") from None
        if not 0 < value <= 3600:
            raise OptionError(name, text, "must be between 0 and 3600 seconds")
        return value


def parse_access(options: Mapping[str, str]) -> Access:
    """Where the brokers are and how to be let in; raises OptionError."""
    given = _Given(options)
    nsqd = _addresses(given, "nsqd", _NSQD_PORT)
    lookupd = _addresses(given, "lookupd", _LOOKUPD_PORT)
    if bool(nsqd) == bool(lookupd):
        reason = "give one of nsqd and lookupd" if nsqd else "or lookupd is needed, such as 127.0.0.1:4151"
        raise OptionError("nsqd", None, reason)
    if given.has("tlsCert") != given.has("tlsKey"):
        raise OptionError("tlsCert", None, "and tlsKey are needed together")
    retries = given.integer("retries", least=0)
    return Access(
        nsqd=nsqd,
        lookupd=lookupd,
        secret=_secret(given),
        root_ca_file=given.text("tlsRootCaFile"),
        cert_file=given.text("tlsCert"),
        key_file=given.text("tlsKey"),
        verify=not given.flag("tlsInsecureSkipVerify", default=False),
        timeout_s=given.seconds("requestTimeout", Access.timeout_s),
        retries=Access.retries if retries is None else retries,
    )


def _addresses(given: _Given, name: str, port: int) -> tuple[str, ...]:
    return tuple(dict.fromkeys(_address(name, word, port) for word in given.words(name)))


def _address(option: str, text: str, default_port: int) -> str:
    """`host:port`, or `https://host:port`: one spelling for each, because checkpoints name nodes by it."""
    shape = "must be like host:4151 or https://host:4152"
    url = urlsplit(text if "://" in text else f"http://{text}")
    try:
        host, port = url.hostname, url.port
    except ValueError:
        raise OptionError(option, text, shape) from None
    has_more = url.path not in ("", "/") or url.query or url.fragment or "@" in url.netloc
    if not host or has_more or url.scheme not in ("http", "https"):
        raise OptionError(option, text, shape)
    is_https = url.scheme == "https"
    host = f"[{host}]" if ":" in host else host
    return f"{'https://' * is_https}{host}:{port or (_NSQD_HTTPS_PORT if is_https else default_port)}"


def _secret(given: _Given) -> str:
    names = [name for name in ("authSecret", "authSecretFile", "authSecretEnv") if given.has(name)]
    if len(names) > 1:
        raise OptionError(names[0], None, f"and {names[1]} exclude each other")
    if given.has("authSecretFile"):
        path = given.text("authSecretFile")
        try:
            with open(path, encoding="utf-8") as file:
                return file.read().strip()
        except OSError as error:
            raise OptionError("authSecretFile", path, f"cannot be read: {error.strerror}") from error
    if given.has("authSecretEnv"):
        name = given.text("authSecretEnv")
        if name not in os.environ:
            raise OptionError("authSecretEnv", name, "is not in the environment")
        return os.environ[name]
    return given.text("authSecret")


def parse_read(options: Mapping[str, str], *, streaming: bool) -> ReadOptions:
    """The options of a source; raises OptionError for the first that is wrong."""
    given = _Given(options)
    given.refuse_unknown(_NAMES)
    topics, pattern = _topics(given)
    for name in ("endingOffsets", "endingTimestamp"):
        if streaming and given.has(name):
            raise OptionError(name, None, "is for batch reads only; a stream has no end")
    for name in ("maxOffsetsPerTrigger", "maxBytesPerTrigger"):
        if not streaming and given.has(name):
            raise OptionError(name, None, "is for streams only; a batch reads all there is")
    mode = given.text("mode", "log")
    if mode not in ("log", "consume"):
        raise OptionError("mode", mode, "must be log or consume")
    if mode == "consume":
        _check_consume(given, topics, streaming=streaming)
    elif given.has("walDir"):
        raise OptionError("walDir", given.text("walDir"), "is for mode=consume only")
    return ReadOptions(
        access=parse_access(options),
        topics=topics,
        pattern=pattern,
        starting=_bound(given, "starting", LATEST if streaming else EARLIEST),
        ending=_bound(given, "ending", LATEST),
        max_messages=given.integer("maxOffsetsPerTrigger"),
        max_bytes=given.integer("maxBytesPerTrigger"),
        min_partitions=given.integer("minPartitions"),
        fail_on_data_loss=given.flag("failOnDataLoss", default=True),
        channel=_channel(given, mode),
        columns=_columns(given),
        mode=mode,
        request_bytes=given.integer("maxRequestBytes") or ReadOptions.request_bytes,
        wal_dir=given.text("walDir"),
    )


def _check_consume(given: _Given, topics: tuple[str, ...], *, streaming: bool) -> None:
    """A channel is no log: there are no offsets to choose among, and nothing to read twice."""
    if not streaming:
        raise OptionError("mode", "consume", "is for streams only")
    for name in _LOG_ONLY_NAMES:
        if given.has(name):
            raise OptionError(name, None, "is for mode=log only: mode=consume takes what its channel gives")
    if len(topics) != 1:
        raise OptionError(
            "topic", ",".join(topics) or None, "mode=consume takes exactly one topic, by its name"
        )
    for name in (topics[0], given.text("channel")):
        if is_ephemeral(name):
            raise OptionError(
                "mode", "consume", f"{name} is ephemeral: what Spark has not got yet could be lost"
            )


def parse_write(options: Mapping[str, str], *, streaming: bool) -> WriteOptions:
    """The options of a sink; raises OptionError for the first that is wrong."""
    given = _Given(options)
    given.refuse_unknown(_WRITE_NAMES)
    topic = given.text("topic")
    if given.has("topic") and not is_valid_name(topic.encode()):
        raise OptionError("topic", topic, "is no valid topic name")
    delivery = _delivery(given, streaming=streaming)
    if delivery == EXACTLY_ONCE and is_ephemeral(topic):
        raise OptionError("topic", topic, f"is ephemeral: it can only be {AT_LEAST_ONCE}")
    return WriteOptions(
        access=parse_access(options),
        topic=topic,
        delivery=delivery,
        checkpoint=given.text("checkpointLocation"),
        request_bytes=given.integer("maxRequestBytes") or WriteOptions.request_bytes,
    )


def _delivery(given: _Given, *, streaming: bool) -> str:
    delivery = given.text("delivery", EXACTLY_ONCE if streaming else AT_LEAST_ONCE)
    if delivery not in (EXACTLY_ONCE, AT_LEAST_ONCE):
        raise OptionError("delivery", delivery, f"must be {EXACTLY_ONCE} or {AT_LEAST_ONCE}")
    if delivery == EXACTLY_ONCE and not streaming:
        raise OptionError("delivery", delivery, f"is for streams; a batch write is {AT_LEAST_ONCE}")
    return delivery


def _topics(given: _Given) -> tuple[tuple[str, ...], str]:
    names = [name for name in ("topic", "topics", "subscribe") if given.has(name)]
    patterns = [name for name in ("topicPattern", "subscribePattern") if given.has(name)]
    if len(names) + len(patterns) != 1:
        given_names = ", ".join(names + patterns) or "none"
        reason = f"exactly one of topic, topics and topicPattern is needed, not {given_names}"
        raise OptionError("topic", None, reason)
    if patterns:
        pattern = given.text(patterns[0])
        try:
            re.compile(pattern)
        except re.error as error:
            raise OptionError(patterns[0], pattern, f"is no regular expression: {error}") from error
        return (), pattern
    topics = tuple(dict.fromkeys(given.words(names[0])))
    for topic in topics:
        if not is_valid_name(topic.encode()):
            raise OptionError(names[0], topic, "is no valid topic name")
    if not topics:
        raise OptionError(names[0], "", "names no topic")
    return topics, ""


def _channel(given: _Given, mode: str) -> str:
    channel = given.text("channel")
    if channel and not is_valid_name(channel.encode()):
        raise OptionError("channel", channel, "is no valid channel name")
    if not channel and (mode == "consume" or given.text("startingOffsets") == CHANNEL):
        raise OptionError("channel", None, "is needed for mode=consume and startingOffsets=channel")
    return channel


def parse_columns(options: Mapping[str, str]) -> tuple[str, ...]:
    """Which columns there are, in their order; raises OptionError."""
    return _columns(_Given(options))


def _columns(given: _Given) -> tuple[str, ...]:
    columns = given.words("columns") or COLUMNS
    for column in columns:
        if column not in COLUMNS:
            raise OptionError("columns", column, f"is not known; there are {', '.join(COLUMNS)}")
    return tuple(dict.fromkeys(columns))


def _bound(given: _Given, which: str, default: int) -> Bound:
    offsets_name, time_name = f"{which}Offsets", f"{which}Timestamp"
    if given.has(offsets_name) and given.has(time_name):
        raise OptionError(offsets_name, None, f"and {time_name} exclude each other")
    if given.has(time_name):
        return Bound(default, timestamp_ns=_timestamp_ns(time_name, given.text(time_name)))
    text = given.text(offsets_name)
    if not text:
        return Bound(default)
    if text in _WORDS:
        if which == "ending" and text == "earliest":
            raise OptionError(offsets_name, text, _NOTHING)
        return Bound(_WORDS[text])
    if text == CHANNEL and which == "starting":
        return Bound(CHANNEL)
    offsets = _offsets(offsets_name, text)
    if which == "ending" and EARLIEST in offsets.values():
        raise OptionError(offsets_name, text, _NOTHING)
    return Bound(default, offsets=offsets)


def _offsets(option: str, text: str) -> dict[SourceKey, int]:
    shape = (
        'must be earliest, latest, channel, or like {"topic": {"host:4151": 123}}; -2 is earliest, -1 latest'
    )
    try:
        document: Any = json.loads(text)
    except ValueError:
        raise OptionError(option, text, shape) from None
    found: dict[SourceKey, int] = {}
    for topic, nodes in document.items() if isinstance(document, dict) else ((text, None),):
        for node, offset in nodes.items() if isinstance(nodes, dict) else ((topic, None),):
            if isinstance(offset, bool) or not isinstance(offset, int) or offset < EARLIEST:
                raise OptionError(option, text, shape)
            found[SourceKey(topic, _address(option, node, _NSQD_PORT))] = offset
    return found


def _timestamp_ns(option: str, text: str) -> int:
    if re.fullmatch(r"[0-9]{1,16}", text):
        return int(text) * 1_000_000
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise OptionError(
            option, text, "must be milliseconds since 1970 or a time like 2026-11-15T18:00:00Z"
        ) from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return round(moment.timestamp() * 1_000_000) * 1000
