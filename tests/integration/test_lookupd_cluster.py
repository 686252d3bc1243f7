"""Our nsqd with our nsqlookupd: what one does, the other knows."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from nsqlake.testing.clock import ManualClock
from nsqlake.testing.nsqd import NsqdFixture, running_nsqd
from nsqlake.testing.nsqlookupd import NsqlookupdFixture, running_nsqlookupd
from tests.fakes.http_connection import HttpConnection
from tests.integration.support import eventually, find_channel, find_topic, has_channel


@pytest.fixture
def lookupd() -> Iterator[NsqlookupdFixture]:
    with running_nsqlookupd() as lookupd:
        yield lookupd


@contextlib.contextmanager
def announced(*lookupds: NsqlookupdFixture, **options: Any) -> Iterator[NsqdFixture]:
    addresses = tuple(lookupd.tcp_address for lookupd in lookupds)
    with running_nsqd(
        lookupd_tcp_addresses=addresses, **{"broadcast_address": "127.0.0.1", **options}
    ) as nsqd:
        eventually(lambda: len(nsqd.call(lambda daemon: daemon.announcements.connected)) == len(addresses))
        yield nsqd


def peer_count(lookupd: NsqlookupdFixture) -> int:
    return len(lookupd.call(lambda daemon: daemon.db.peers()))


def test_what_an_nsqd_has_is_known_to_every_lookupd(lookupd: NsqlookupdFixture) -> None:
    with running_nsqlookupd() as other, announced(lookupd, other) as nsqd:
        nsqd.create_channel("orders", "archive")
        nsqd.publish("events", b"x")

        for each in (lookupd, other):
            eventually(lambda each=each: each.topics() == ["events", "orders"])
            eventually(lambda each=each: each.channels("orders") == ["archive"])
            assert each.producers("orders") == [nsqd.tcp_address]


def test_what_is_deleted_has_no_producer_any_more(lookupd: NsqlookupdFixture) -> None:
    with announced(lookupd) as nsqd:
        nsqd.create_channel("orders", "archive")
        eventually(lambda: lookupd.producers("orders") == [nsqd.tcp_address])

        nsqd.call(lambda daemon: daemon.broker.delete_topic(find_topic(daemon, "orders")))

        eventually(lambda: lookupd.producers("orders") == [])
        assert lookupd.channels("orders") == ["archive"]


def test_ephemeral_channels_are_forgotten_with_their_last_nsqd(lookupd: NsqlookupdFixture) -> None:
    with announced(lookupd) as nsqd:
        nsqd.create_channel("orders", "live#ephemeral")
        eventually(lambda: lookupd.channels("orders") == ["live#ephemeral"])

        nsqd.call(
            lambda daemon: daemon.broker.delete_channel(find_channel(daemon, "orders", "live#ephemeral"))
        )

        eventually(lambda: lookupd.channels("orders") == [])


def test_a_new_topic_begins_with_the_channels_it_has_elsewhere(lookupd: NsqlookupdFixture) -> None:
    with announced(lookupd) as first, announced(lookupd) as second:
        first.create_channel("orders", "archive")
        eventually(lambda: lookupd.channels("orders") == ["archive"])

        second.publish("orders", b"x")

        assert has_channel(second, "orders", "archive")
        eventually(lambda: len(lookupd.producers("orders")) == 2)


def test_a_lookupd_that_restarts_is_told_everything_again() -> None:
    with contextlib.ExitStack() as stack:
        with running_nsqlookupd() as before:
            ports = {"tcp_address": before.tcp_address, "http_address": before.http_address}
            nsqd = stack.enter_context(announced(before))
            nsqd.create_channel("orders", "archive")
            eventually(lambda: before.channels("orders") == ["archive"])
        eventually(lambda: nsqd.call(lambda daemon: daemon.announcements.connected) == [])

        after = stack.enter_context(running_nsqlookupd(**ports))

        eventually(lambda: after.channels("orders") == ["archive"])
        assert after.producers("orders") == [nsqd.tcp_address]


def test_an_nsqd_that_restarts_is_found_at_its_new_address(
    lookupd: NsqlookupdFixture, tmp_path: Path
) -> None:
    with announced(lookupd, data_path=str(tmp_path)) as nsqd:
        nsqd.create_channel("orders", "archive")
        eventually(lambda: lookupd.producers("orders") == [nsqd.tcp_address])
    eventually(lambda: peer_count(lookupd) == 0)
    assert (lookupd.topics(), lookupd.producers("orders")) == (["orders"], [])

    with announced(lookupd, data_path=str(tmp_path)) as again:
        eventually(lambda: lookupd.producers("orders") == [again.tcp_address])


def test_a_tombstoned_node_is_found_by_nobody_until_its_time_is_over() -> None:
    clock = ManualClock()
    with running_nsqlookupd(clock=clock) as lookupd, announced(lookupd) as nsqd:
        nsqd.create_channel("orders", "archive")
        eventually(lambda: lookupd.producers("orders") == [nsqd.tcp_address])

        with HttpConnection(lookupd.http_address) as http:
            http.post(f"/topic/tombstone?topic=orders&node=127.0.0.1:{nsqd.http_port}")
        assert lookupd.producers("orders") == []
        clock.advance_ms(45_000)

        assert lookupd.producers("orders") == [nsqd.tcp_address]


def test_a_full_lookupd_keeps_what_it_knows(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with running_nsqlookupd(max_registrations=2) as lookupd, announced(lookupd) as nsqd:
        nsqd.create_channel("orders", "archive")
        eventually(lambda: lookupd.channels("orders") == ["archive"])

        nsqd.publish("events", b"x")

        eventually(lambda: "E_TOO_MANY_REGISTRATIONS" in caplog.text)
        assert nsqd.call(lambda daemon: daemon.announcements.connected) == [lookupd.tcp_address]
        assert lookupd.producers("orders") == [nsqd.tcp_address]


def test_lookupds_see_a_node_drain(lookupd: NsqlookupdFixture) -> None:
    with announced(lookupd) as nsqd:
        nsqd.create_channel("orders", "archive")
        eventually(lambda: lookupd.producers("orders") == [nsqd.tcp_address])

        nsqd.call(lambda daemon: daemon.broker.start_drain())

        eventually(lambda: lookupd.producers("orders") == [])
