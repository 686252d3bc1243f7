"""The lookupd for tests: as its docstring promises."""

import pytest

from nsqlake.runtime.errors import StartupError
from nsqlake.testing.clock import ManualClock
from nsqlake.testing.nsqd import running_nsqd
from nsqlake.testing.nsqlookupd import running_nsqlookupd
from tests.fakes.http_connection import HttpConnection
from tests.integration.support import eventually


def test_an_nsqd_and_a_lookupd_find_each_other() -> None:
    with (
        running_nsqlookupd() as lookupd,
        running_nsqd(lookupd_tcp_addresses=(lookupd.tcp_address,), broadcast_address="127.0.0.1") as nsqd,
    ):
        nsqd.create_channel("orders", "mail")

        eventually(lambda: lookupd.producers("orders") == [nsqd.tcp_address])
        assert (lookupd.topics(), lookupd.channels("orders")) == (["orders"], ["mail"])
        with HttpConnection(lookupd.http_address) as http:
            assert http.get_json("/lookup?topic=orders")["channels"] == ["mail"]


def test_time_is_the_tests() -> None:
    clock = ManualClock()
    with (
        running_nsqlookupd(clock=clock, inactive_producer_timeout_ns=1_000_000_000) as lookupd,
        running_nsqd(lookupd_tcp_addresses=(lookupd.tcp_address,)) as nsqd,
    ):
        nsqd.create_channel("orders", "mail")
        eventually(lambda: len(lookupd.producers("orders")) == 1)

        clock.advance_ms(1_001)

        assert lookupd.producers("orders") == []


def test_a_lookupd_that_cannot_start_leaves_nothing_behind() -> None:
    with (
        running_nsqlookupd() as lookupd,
        pytest.raises(StartupError),
        running_nsqlookupd(tcp_address=lookupd.tcp_address),
    ):
        pass
