"""`/stats` as text, to the column."""

import asyncio
from datetime import UTC, timedelta, timezone, tzinfo

import pytest

from nsqlake.nsqd.stats.text import render_text
from nsqlake.nsqd.stats.values import ClientStats, Latency, Percentile, PubCount, Stats
from nsqlake.runtime.version import version_line
from tests.nsqd.stats.support import START_S, channel_stats, client_stats, memory, node_stats, topic_stats

NOW_NS = (START_S + 65) * 1_000_000_000
UPTIME_NS = 65_500_000_000


def rendered(stats: Stats, zone: tzinfo = UTC) -> list[str]:
    text = asyncio.run(render_text(stats, uptime_ns=UPTIME_NS, now_ns=NOW_NS, zone=zone))
    assert text.endswith("\n")
    return text[:-1].split("\n")


def test_a_daemon_without_anything_says_none() -> None:
    assert rendered(node_stats()) == [
        version_line("nsqd"),
        "start_time 2023-11-14T22:13:20Z",
        "uptime 1m5.5s",
        "",
        "Health: OK",
        "",
        "Topics: None",
        "",
        "Producers: None",
    ]


def test_a_topic_that_is_not_there_reads_like_none() -> None:
    assert rendered(node_stats(topics=None))[6:] == ["Topics: None", "", "Producers: None"]


def test_the_time_of_the_start_has_the_offset_of_the_machine() -> None:
    east = timezone(timedelta(hours=5, minutes=30))

    assert rendered(node_stats(), east)[1] == "start_time 2023-11-15T03:43:20+05:30"


def test_memory_is_a_block_of_nine_lines() -> None:
    lines = rendered(node_stats(memory=memory(heap_objects=12, gc_total_runs=3)))

    assert lines[5:8] == ["", "Memory:", "   heap_objects             \t12"]
    assert lines[15:17] == ["   gc_total_runs            \t3", ""]


def test_topics_and_channels_stand_in_columns() -> None:
    channel = channel_stats("c", depth=1, in_flight_count=2, deferred_count=3, requeue_count=4)
    busy = topic_stats("first", channel, depth=7, backend_depth=6, message_count=5)
    paused = topic_stats("second", channel_stats("d", paused=True, timeout_count=8), paused=True)

    assert rendered(node_stats(busy, paused))[6:] == [
        "Topics:",
        "   [first          ] depth: 7     be-depth: 6     msgs: 5        e2e%: ",
        "      [c                        ] depth: 1     be-depth: 0     inflt: 2    def: 3    re-q: 4     "
        "timeout: 0     msgs: 0        e2e%: ",
        "",
        "*P [second         ] depth: 0     be-depth: 0     msgs: 0        e2e%: ",
        "   *P [d                        ] depth: 0     be-depth: 0     inflt: 0    def: 0    re-q: 0     "
        "timeout: 8     msgs: 0        e2e%: ",
        "",
        "Producers: None",
    ]


def test_a_consumer_stands_below_its_channel() -> None:
    client = client_stats(
        state=3, in_flight_count=1, ready_count=5, finish_count=9, requeue_count=2, message_count=12
    )

    lines = rendered(node_stats(topic_stats("t", channel_stats(clients=[client]))))

    assert lines[9] == (
        "        [V2 host:52110 agent/1   ] state: 3 inflt: 1    rdy: 5    fin: 9        re-q: 2        "
        "msgs: 12       connected: 1m5s"
    )


@pytest.mark.parametrize(
    ("client", "shown"),
    [
        (
            client_stats(
                pub_counts=[PubCount("t", 3)], hostname="a-very-long-host-name", connect_ts=START_S + 60
            ),
            "   [V2 a-very-long-host-name:52110 agent/1] msgs: 3        topics: t=3 connected: 5s",
        ),
        (
            client_stats(pub_counts=[PubCount("t", 3)], remote_address="@", user_agent=""),
            "   [V2 host:                ] msgs: 3        topics: t=3 connected: 1m5s",
        ),
        (
            client_stats(remote_address="[::1]:9", connect_ts=START_S + 99),
            "   [V2 host:9 agent/1       ] state: 0 inflt: 0    rdy: 0    fin: 0        re-q: 0        "
            "msgs: 0        connected: 0s",
        ),
    ],
)
def test_a_producer_says_what_it_published(client: ClientStats, shown: str) -> None:
    lines = rendered(node_stats(producers=[client]))

    assert lines[-2:] == ["Producers:", shown]


@pytest.mark.parametrize(
    ("value_ns", "shown"),
    [
        (0, "0.0ns"),
        (1_000, "1000.0ns"),
        (1_001, "1.0us"),
        (3_200, "3.2us"),
        (1_000_000, "1000.0us"),
        (950_000_000, "950.0ms"),
        (1_000_000_000, "1000.0ms"),
        (1_100_000_000, "1.1s"),
    ],
)
def test_latencies_have_the_largest_unit_that_they_exceed(value_ns: int, shown: str) -> None:
    latency = Latency(1, [Percentile(0.99, value_ns), Percentile(0.5, 12)])

    assert rendered(node_stats(topic_stats(e2e_processing_latency=latency)))[7].endswith(
        f"e2e%: {shown}, 12.0ns"
    )
