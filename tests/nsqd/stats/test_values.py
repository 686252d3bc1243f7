"""The JSON of `/stats`: NSQ's keys in NSQ's order, and what is left out."""

import json

import pytest

from nsqlake.nsqd.stats.values import Latency, Percentile, PubCount, encode_stats
from tests.nsqd.stats.support import channel_stats, client_stats, memory, node_stats, topic_stats

CLIENT_KEYS = [
    "client_id",
    "hostname",
    "version",
    "remote_address",
    "state",
    "ready_count",
    "in_flight_count",
    "message_count",
    "finish_count",
    "requeue_count",
    "connect_ts",
    "sample_rate",
    "deflate",
    "snappy",
    "user_agent",
    "topology_zone",
    "topology_region",
    "tls",
    "tls_cipher_suite",
    "tls_version",
    "tls_negotiated_protocol",
    "tls_negotiated_protocol_is_mutual",
]


def test_the_daemon_has_these_keys_in_this_order() -> None:
    found = json.loads(encode_stats(node_stats(memory=memory())))

    assert list(found) == ["version", "health", "start_time", "topics", "memory", "producers"]
    assert list(found["memory"]) == [
        "heap_objects",
        "heap_idle_bytes",
        "heap_in_use_bytes",
        "heap_released_bytes",
        "gc_pause_usec_100",
        "gc_pause_usec_99",
        "gc_pause_usec_95",
        "next_gc_bytes",
        "gc_total_runs",
    ]


def test_memory_is_absent_and_draining_comes_last_when_it_drains() -> None:
    found = json.loads(encode_stats(node_stats(draining=True)))

    assert list(found) == ["version", "health", "start_time", "topics", "producers", "draining"]


def test_a_topic_and_a_channel_have_these_keys_in_this_order() -> None:
    topic = json.loads(encode_stats(node_stats(topic_stats("t", channel_stats()))))["topics"][0]

    assert list(topic) == [
        "topic_name",
        "channels",
        "depth",
        "backend_depth",
        "message_count",
        "message_bytes",
        "paused",
        "e2e_processing_latency",
        "log",
    ]
    assert list(topic["channels"][0]) == [
        "channel_name",
        "depth",
        "backend_depth",
        "in_flight_count",
        "deferred_count",
        "message_count",
        "requeue_count",
        "timeout_count",
        "client_count",
        "clients",
        "paused",
        "e2e_processing_latency",
    ]


def test_deliveries_by_locality_are_shown_where_there_were_any() -> None:
    channel = channel_stats(zone_local_msg_count=1, global_msg_count=3)

    found = json.loads(encode_stats(node_stats(topic_stats("t", channel))))["topics"][0]["channels"][0]

    assert list(found)[5:9] == ["message_count", "zone_local_msg_count", "global_msg_count", "requeue_count"]


def test_a_client_has_these_keys_in_this_order() -> None:
    found = json.loads(encode_stats(node_stats(producers=[client_stats()])))["producers"][0]

    assert list(found) == CLIENT_KEYS


def test_a_client_that_authenticated_and_published_has_more_keys() -> None:
    client = client_stats(
        authed=True, auth_identity="me", auth_identity_url="http://me", pub_counts=[PubCount("t", 3)]
    )

    found = json.loads(encode_stats(node_stats(producers=[client])))["producers"][0]

    assert list(found)[14:21] == [
        "user_agent",
        "authed",
        "auth_identity",
        "auth_identity_url",
        "topology_zone",
        "topology_region",
        "pub_counts",
    ]
    assert found["pub_counts"] == [{"topic": "t", "count": 3}]


@pytest.mark.parametrize(
    ("latency", "shown"),
    [
        (Latency(), b'{"count":0,"percentiles":null}'),
        (
            Latency(2, [Percentile(1, 9), Percentile(0.99, 8)]),
            b'{"count":2,"percentiles":[{"quantile":1,"value":9},{"quantile":0.99,"value":8}]}',
        ),
    ],
)
def test_latencies_are_null_or_a_list(latency: Latency, shown: bytes) -> None:
    assert b'"e2e_processing_latency":' + shown in encode_stats(
        node_stats(topic_stats(e2e_processing_latency=latency))
    )


def test_what_a_page_of_html_could_trip_over_is_escaped() -> None:
    encoded = encode_stats(node_stats(producers=[client_stats(hostname="<é>&\u2028", user_agent='"\\')]))

    assert rb'"hostname":"\u003c' + "é".encode() + rb'\u003e\u0026\u2028"' in encoded
    assert json.loads(encoded)["producers"][0]["user_agent"] == '"\\'
