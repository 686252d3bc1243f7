"""Options of the source: every one, and the text of every refusal."""

from pathlib import Path

import pytest

from nsqlake.spark.errors import OptionError
from nsqlake.spark.offsets import SourceKey
from nsqlake.spark.options import (
    CHANNEL,
    COLUMNS,
    EARLIEST,
    LATEST,
    Access,
    Bound,
    ReadOptions,
    parse_access,
    parse_columns,
    parse_read,
)

NODE = {"nsqd": "n1:4151"}
LEAST = {**NODE, "topic": "t"}


def read(*, streaming: bool = False, **options: str) -> ReadOptions:
    return parse_read({**LEAST, **options}, streaming=streaming)


def test_little_is_needed() -> None:
    assert read() == ReadOptions(Access(nsqd=("n1:4151",)), topics=("t",))
    assert read(streaming=True).starting == Bound(LATEST)


def test_names_are_taken_in_any_case() -> None:
    given = {"NSQD": "n1", "Topic": "t", "minpartitions": "3", "MAXREQUESTBYTES": "5"}

    options = parse_read(given, streaming=False)

    assert (options.min_partitions, options.request_bytes) == (3, 5)


def test_every_option_arrives() -> None:
    options = read(
        streaming=True,
        maxOffsetsPerTrigger="10",
        maxBytesPerTrigger="20",
        minPartitions="30",
        failOnDataLoss="FALSE",
        channel="spark",
        columns="offset, body",
        maxRequestBytes="40",
        requestTimeout="2.5s",
        retries="0",
        tlsRootCaFile="ca.pem",
        tlsCert="c.pem",
        tlsKey="k.pem",
        tlsInsecureSkipVerify="true",
    )

    assert (options.max_messages, options.max_bytes, options.min_partitions) == (10, 20, 30)
    assert (options.fail_on_data_loss, options.channel, options.request_bytes) == (False, "spark", 40)
    assert options.columns == ("offset", "body")
    assert options.access == Access(
        nsqd=("n1:4151",),
        root_ca_file="ca.pem",
        cert_file="c.pem",
        key_file="k.pem",
        verify=False,
        timeout_s=2.5,
        retries=0,
    )


def test_options_of_spark_itself_are_let_through() -> None:
    assert read(path="x", checkpointLocation="y", queryName="z") == read()


# Addresses --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "addresses"),
    [
        ("n1:4151", ("n1:4151",)),
        ("n1", ("n1:4151",)),
        (" n1:1 , n2:2 ,", ("n1:1", "n2:2")),
        ("http://n1:1/", ("n1:1",)),
        ("https://n1", ("https://n1:4152",)),
        ("https://n1:9/", ("https://n1:9",)),
        ("[::1]:4151", ("[::1]:4151",)),
        ("N1:4151,n1:4151,http://n1", ("n1:4151",)),
    ],
)
def test_a_node_has_one_spelling(text: str, addresses: tuple[str, ...]) -> None:
    assert parse_access({"nsqd": text}).nsqd == addresses


def test_lookupd_has_its_own_port() -> None:
    assert parse_access({"lookupd": "l1,l2:5"}).lookupd == ("l1:4161", "l2:5")


@pytest.mark.parametrize("text", ["n1:x", "n1:99999", "ftp://n1", "n1/path", "http://", "u:p@n1", "n1?x=1"])
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(OptionError, match=r"option nsqd '.*': must be like host:4151 or https://host:4152"):
        parse_access({"nsqd": text})


# Secrets ----------------------------------------------------------------------------------------------


def test_a_secret_comes_from_the_option_a_file_or_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "secret").write_text("from file\n", encoding="utf-8")
    monkeypatch.setenv("NSQ_SECRET", "from environment")

    assert read(authSecret="given").access.secret == "given"
    assert read(authSecretFile=str(tmp_path / "secret")).access.secret == "from file"
    assert read(authSecretEnv="NSQ_SECRET").access.secret == "from environment"


# Topics -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["topic", "topics", "subscribe"])
def test_topics_are_named(name: str) -> None:
    assert parse_read({**NODE, name: "a, b,a"}, streaming=False).topics == ("a", "b")


@pytest.mark.parametrize("name", ["topicPattern", "subscribePattern"])
def test_topics_match_a_pattern(name: str) -> None:
    assert parse_read({**NODE, name: "dns_.*"}, streaming=False).pattern == "dns_.*"


# Bounds -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "bound"),
    [
        ("earliest", Bound(EARLIEST)),
        ("latest", Bound(LATEST)),
        ("channel", Bound(CHANNEL)),
        (
            '{"t": {"n1": 5, "https://n2": -2}}',
            Bound(offsets={SourceKey("t", "n1:4151"): 5, SourceKey("t", "https://n2:4152"): -2}),
        ),
    ],
)
def test_where_reading_begins(text: str, bound: Bound) -> None:
    assert read(startingOffsets=text, channel="c").starting == bound


def test_where_reading_ends() -> None:
    assert read(endingOffsets="latest").ending == Bound(LATEST)
    offsets = {SourceKey("t", "n1:4151"): -1}
    assert read(endingOffsets='{"t": {"n1:4151": -1}}').ending == Bound(LATEST, offsets=offsets)


@pytest.mark.parametrize(
    "text",
    [
        "1763229600000",
        "2025-11-15T18:00:00Z",
        "2025-11-15T18:00:00",
        "2025-11-15T19:00:00+01:00",
        "2025-11-15 18:00",
    ],
)
def test_times_are_milliseconds_or_texts_in_utc(text: str) -> None:
    assert read(startingTimestamp=text).starting.timestamp_ns == 1_763_229_600 * 10**9
    assert read(endingTimestamp=text).ending.timestamp_ns == 1_763_229_600 * 10**9


def test_times_keep_their_microseconds() -> None:
    found = read(startingTimestamp="2025-11-15T18:00:00.123456Z").starting.timestamp_ns

    assert found == 1_763_229_600_123_456_000


# Columns ----------------------------------------------------------------------------------------------


def test_columns_are_chosen_in_any_order_once() -> None:
    assert parse_columns({}) == COLUMNS
    assert parse_columns({"columns": "body,offset,body"}) == ("body", "offset")


# Refusals ---------------------------------------------------------------------------------------------

_SHAPE = 'must be earliest, latest, channel, or like {"topic": {"host:4151": 123}}; -2 is earliest, -1 latest'


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"nsqd": ""}, "option nsqd: or lookupd is needed, such as 127.0.0.1:4151"),
        ({"lookupd": "l1"}, "option nsqd: give one of nsqd and lookupd"),
        (
            {"topics": "u"},
            "option topic: exactly one of topic, topics and topicPattern is needed, not topic, topics",
        ),
        ({"topic": "a b"}, "option topic 'a b': is no valid topic name"),
        ({"topic": " , "}, "option topic '': names no topic"),
        ({"channel": "a b"}, "option channel 'a b': is no valid channel name"),
        ({"mode": "consume"}, "option mode 'consume': is for streams only"),
        ({"walDir": "/wal"}, "option walDir '/wal': is for mode=consume only"),
        (
            {"startingOffsets": "channel"},
            "option channel: is needed for mode=consume and startingOffsets=channel",
        ),
        ({"mode": "tail"}, "option mode 'tail': must be log or consume"),
        ({"columns": "body,key"}, f"option columns 'key': is not known; there are {', '.join(COLUMNS)}"),
        ({"minPartitions": "0"}, "option minPartitions '0': must be a whole number of at least 1"),
        ({"minPartitions": "1.5"}, "option minPartitions '1.5': must be a whole number of at least 1"),
        ({"maxRequestBytes": "-1"}, "option maxRequestBytes '-1': must be a whole number of at least 1"),
        ({"retries": "-1"}, "option retries '-1': must be a whole number of at least 0"),
        ({"failOnDataLoss": "maybe"}, "option failOnDataLoss 'maybe': must be true or false"),
        ({"tlsInsecureSkipVerify": "1"}, "option tlsInsecureSkipVerify '1': must be true or false"),
        ({"requestTimeout": "soon"}, "option requestTimeout 'soon': must be a number of seconds"),
        ({"requestTimeout": "0"}, "option requestTimeout '0': must be between 0 and 3600 seconds"),
        ({"requestTimeout": "nan"}, "option requestTimeout 'nan': must be between 0 and 3600 seconds"),
        ({"tlsCert": "c.pem"}, "option tlsCert: and tlsKey are needed together"),
        (
            {"authSecret": "a", "authSecretEnv": "b"},
            "option authSecret: and authSecretEnv exclude each other",
        ),
        ({"authSecretEnv": "NSQ_NO_SUCH"}, "option authSecretEnv 'NSQ_NO_SUCH': is not in the environment"),
        (
            {"authSecretFile": "/nowhere"},
            "option authSecretFile '/nowhere': cannot be read: No such file or directory",
        ),
        ({"startingOffsets": "first"}, f"option startingOffsets 'first': {_SHAPE}"),
        ({"startingOffsets": "[1]"}, f"option startingOffsets '[1]': {_SHAPE}"),
        ({"startingOffsets": '{"t": 5}'}, f"""option startingOffsets '{{"t": 5}}': {_SHAPE}"""),
        (
            {"startingOffsets": '{"t": {"n": true}}'},
            f"""option startingOffsets '{{"t": {{"n": true}}}}': {_SHAPE}""",
        ),
        (
            {"startingOffsets": '{"t": {"n": -3}}'},
            f"""option startingOffsets '{{"t": {{"n": -3}}}}': {_SHAPE}""",
        ),
        ({"endingOffsets": "channel"}, f"option endingOffsets 'channel': {_SHAPE}"),
        (
            {"endingOffsets": "earliest"},
            "option endingOffsets 'earliest': would read nothing: an end cannot be earliest",
        ),
        (
            {"endingOffsets": '{"t": {"n": -2}}'},
            """option endingOffsets '{"t": {"n": -2}}': would read nothing: an end cannot be earliest""",
        ),
        (
            {"startingOffsets": "latest", "startingTimestamp": "1"},
            "option startingOffsets: and startingTimestamp exclude each other",
        ),
        (
            {"startingTimestamp": "yesterday"},
            "option startingTimestamp 'yesterday': must be milliseconds since 1970 "
            "or a time like 2026-11-15T18:00:00Z",
        ),
        (
            {"maxOffsetsPerTrigger": "5"},
            "option maxOffsetsPerTrigger: is for streams only; a batch reads all there is",
        ),
        (
            {"maxBytesPerTrigger": "5"},
            "option maxBytesPerTrigger: is for streams only; a batch reads all there is",
        ),
    ],
)
def test_what_is_wrong_is_said(options: dict[str, str], text: str) -> None:
    with pytest.raises(OptionError) as refused:
        read(**options)

    assert str(refused.value) == text


@pytest.mark.parametrize("name", ["endingOffsets", "endingTimestamp"])
def test_a_stream_has_no_end(name: str) -> None:
    with pytest.raises(OptionError, match=f"option {name}: is for batch reads only; a stream has no end"):
        read(streaming=True, **{name: "latest"})


def test_a_bad_pattern_is_named() -> None:
    with pytest.raises(OptionError, match=r"option topicPattern '\(': is no regular expression: missing \)"):
        parse_read({**NODE, "topicPattern": "("}, streaming=False)


def test_no_topic_is_named() -> None:
    with pytest.raises(
        OptionError, match="exactly one of topic, topics and topicPattern is needed, not none"
    ):
        parse_read(NODE, streaming=False)


def test_an_unknown_option_is_named_with_those_there_are() -> None:
    with pytest.raises(
        OptionError, match=r"option startingofset: is not known; there are .*startingOffsets, "
    ):
        read(startingOfset="latest")


def test_long_values_are_cut_in_errors() -> None:
    with pytest.raises(OptionError) as refused:
        read(mode="x" * 10_000)

    assert len(str(refused.value)) < 300


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"channel": ""}, "option channel: is needed for mode=consume and startingOffsets=channel"),
        (
            {"startingOffsets": "earliest"},
            "option startingOffsets: is for mode=log only: mode=consume takes what its channel gives",
        ),
        (
            {"minPartitions": "4"},
            "option minPartitions: is for mode=log only: mode=consume takes what its channel gives",
        ),
        ({"topic": "a,b"}, "option topic 'a,b': mode=consume takes exactly one topic, by its name"),
        (
            {"channel": "c#ephemeral"},
            "option mode 'consume': c#ephemeral is ephemeral: what Spark has not got yet could be lost",
        ),
    ],
)
def test_what_consuming_cannot_do_is_refused(options: dict[str, str], text: str) -> None:
    with pytest.raises(OptionError) as caught:
        read(streaming=True, mode="consume", **{"channel": "c", **options})

    assert str(caught.value) == text
