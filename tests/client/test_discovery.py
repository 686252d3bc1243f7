"""`Discovery` against real HTTP servers on loopback; the time is moved."""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable

import pytest

from nsqlake.client.config import ClientConfig
from nsqlake.client.discovery import MIN_GAP_S, Discovery, DiscoveryStats
from nsqlake.client.errors import InvalidArgumentError
from nsqlake.testing.clock import ManualClock
from nsqlake.testing.time_lapse import advance
from nsqlake.testing.timers import ManualTimers
from tests.fakes.certificates import CertificateAuthority
from tests.fakes.http_server import FakeHttpServer, answer

LIMIT_S = 10.0
INTERVAL_S = 60.0


class FixedRandom(random.Random):
    def random(self) -> float:
        return 0.5


class Cluster:
    """Two nsqlookupds, a clock, and what was found."""

    def __init__(self, *servers: FakeHttpServer) -> None:
        self.servers = servers
        self.clock = ManualClock()
        self.found: list[set[str]] = []
        self._news = asyncio.Event()
        self.discoveries: list[Discovery] = []

    def discovery(self, *addresses: str, topic: str = "t", **options: object) -> Discovery:
        discovery = Discovery(
            topic,
            addresses or [server.address for server in self.servers],
            ClientConfig(lookupd_poll_interval=INTERVAL_S, **options),
            ManualTimers(self.clock),
            self._add,
            random_source=FixedRandom(),
        )
        self.discoveries.append(discovery)
        return discovery

    def _add(self, addresses: set[str]) -> None:
        self.found.append(addresses)
        self._news.set()

    @property
    def all_found(self) -> set[str]:
        return set().union(*self.found)

    async def advance(self, seconds: float) -> None:
        await advance(self.clock, seconds)

    async def wait_found(self, count: int) -> None:
        async with asyncio.timeout(LIMIT_S):
            while len(self.found) < count:
                self._news.clear()
                await self._news.wait()

    async def wait_for(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(LIMIT_S):
            while not condition():
                await asyncio.sleep(0)

    def answer(self, *hosts_of_each: tuple[str, ...]) -> None:
        for server, hosts in zip(self.servers, hosts_of_each, strict=True):
            producers = [{"broadcast_address": host, "tcp_port": 4150} for host in hosts]
            server.answers["/lookup"] = answer({"channels": [], "producers": producers})


def run_with_cluster(scenario: Callable[[Cluster], Awaitable[None]]) -> None:
    async def run() -> None:
        async with FakeHttpServer() as one, FakeHttpServer() as two:
            cluster = Cluster(one, two)
            try:
                await scenario(cluster)
            finally:
                for discovery in cluster.discoveries:
                    await discovery.stop()

    asyncio.run(run())


def test_first_round_asks_all_at_once_and_each_nsqd_is_found_once() -> None:
    async def scenario(cluster: Cluster) -> None:
        cluster.answer(("a", "b"), ("b", "c"))
        cluster.discovery().start()

        await cluster.wait_found(2)

        assert cluster.all_found == {"a:4150", "b:4150", "c:4150"}
        assert sum(len(addresses) for addresses in cluster.found) == 3
        assert [server.requests[0].target for server in cluster.servers] == ["/lookup?topic=t"] * 2

    run_with_cluster(scenario)


def test_rounds_follow_a_steady_beat_after_a_random_time() -> None:
    async def scenario(cluster: Cluster) -> None:
        server = cluster.servers[0]
        cluster.answer(("a",), ())
        discovery = cluster.discovery(server.address, lookupd_poll_jitter=0.2)
        discovery.start()
        await cluster.wait_found(1)

        await cluster.advance(INTERVAL_S * 1.1 - 0.001)
        assert discovery.stats().rounds == 1
        await cluster.advance(0.001)
        await cluster.wait_found(2)
        await cluster.advance(INTERVAL_S - 0.001)
        assert discovery.stats().rounds == 2
        await cluster.advance(0.001)
        await cluster.wait_found(3)

    run_with_cluster(scenario)


def test_found_again_in_every_round() -> None:
    async def scenario(cluster: Cluster) -> None:
        cluster.answer(("a",), ("a",))
        discovery = cluster.discovery(lookupd_poll_jitter=0)
        discovery.start()
        await cluster.wait_found(1)
        for server in cluster.servers:
            await server.wait_requests(1)

        await cluster.advance(INTERVAL_S)
        await cluster.wait_found(2)

        assert cluster.found == [{"a:4150"}, {"a:4150"}]

    run_with_cluster(scenario)


def test_lookupd_that_fails_does_not_spoil_the_round() -> None:
    async def scenario(cluster: Cluster) -> None:
        cluster.answer(("a",), ())
        cluster.servers[1].answers["/lookup"] = answer(b"broken", 500)
        discovery = cluster.discovery()
        discovery.start()

        await cluster.wait_found(1)
        await cluster.wait_for(lambda: discovery.stats().failed_queries == 1)
        await cluster.advance(0)

        assert cluster.found == [{"a:4150"}]
        assert discovery.stats() == DiscoveryStats(rounds=1, failed_rounds=0, failed_queries=1)

    run_with_cluster(scenario)


def test_round_in_which_all_fail_finds_nothing_and_is_an_error(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(cluster: Cluster) -> None:
        for server in cluster.servers:
            server.answers["/lookup"] = answer(b"{}")
        discovery = cluster.discovery()
        discovery.start()

        await cluster.wait_for(lambda: discovery.stats().failed_rounds == 1)

        assert cluster.found == []
        assert discovery.stats().failed_queries == 2

    run_with_cluster(scenario)

    assert "TOPIC(t): no nsqlookupd answered" in caplog.text


def test_lasting_failure_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.servers[0].stop()
        discovery = cluster.discovery(cluster.servers[0].address, lookupd_poll_jitter=0)
        discovery.start()
        await cluster.wait_for(lambda: discovery.stats().failed_rounds == 1)
        await cluster.advance(INTERVAL_S)
        await cluster.wait_for(lambda: discovery.stats().failed_rounds == 2)
        await cluster.servers[0].start()

    run_with_cluster(scenario)

    assert caplog.text.count("connection refused") == 1


def test_unknown_topic_is_an_answer_and_no_failure(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(cluster: Cluster) -> None:
        discovery = cluster.discovery()
        discovery.start()

        async with asyncio.timeout(LIMIT_S):
            await discovery.wait_answer()

        assert cluster.found == []
        assert discovery.stats().failed_queries == 0

    with caplog.at_level(logging.INFO, "nsqlake"):
        run_with_cluster(scenario)

    assert "topic=t does not know the topic yet" in caplog.text
    assert {record.levelname for record in caplog.records if "LOOKUPD" in record.message} == {"INFO"}


def test_one_that_hangs_holds_up_nobody_and_is_left_out_meanwhile() -> None:
    async def scenario(cluster: Cluster) -> None:
        cluster.answer(("a",), ("b",))
        good, bad = cluster.servers
        bad.stalled.add("/lookup")
        discovery = cluster.discovery(lookupd_poll_jitter=0)
        discovery.start()
        await cluster.wait_found(1)

        await bad.wait_requests(1)
        await cluster.advance(INTERVAL_S)
        await cluster.wait_found(2)

        assert cluster.found == [{"a:4150"}, {"a:4150"}]
        assert (len(good.requests), len(bad.requests)) == (2, 1)

    run_with_cluster(scenario)


def test_requested_round_is_immediate_but_not_in_a_tight_loop() -> None:
    async def scenario(cluster: Cluster) -> None:
        server = cluster.servers[0]
        cluster.answer(("a",), ())
        discovery = cluster.discovery(server.address)
        discovery.start()
        await cluster.wait_found(1)
        await cluster.advance(MIN_GAP_S)

        discovery.request_round()
        await cluster.wait_found(2)
        for _ in range(10):
            discovery.request_round()
        await cluster.advance(MIN_GAP_S - 0.001)
        assert discovery.stats().rounds == 2
        await cluster.advance(0.001)
        await cluster.wait_found(3)

        assert discovery.stats().rounds == 3

    run_with_cluster(scenario)


def test_requested_rounds_do_not_move_the_beat() -> None:
    async def scenario(cluster: Cluster) -> None:
        server = cluster.servers[0]
        cluster.answer(("a",), ())
        discovery = cluster.discovery(server.address, lookupd_poll_jitter=0)
        discovery.start()
        await cluster.wait_found(1)
        await cluster.advance(INTERVAL_S - 1)
        discovery.request_round()
        await cluster.wait_found(2)

        await cluster.advance(1)
        await cluster.wait_found(3)

    run_with_cluster(scenario)


def test_beats_that_were_missed_are_left_out() -> None:
    async def scenario(cluster: Cluster) -> None:
        server = cluster.servers[0]
        cluster.answer(("a",), ())
        discovery = cluster.discovery(server.address, lookupd_poll_jitter=0)
        discovery.start()
        await cluster.wait_found(1)

        cluster.clock.advance_ms(10.5 * INTERVAL_S * 1000)
        await cluster.advance(0)
        await cluster.wait_found(2)
        await cluster.advance(INTERVAL_S / 2 - 0.001)
        assert discovery.stats().rounds == 2
        await cluster.advance(0.001)
        await cluster.wait_found(3)

    run_with_cluster(scenario)


def test_nothing_is_asked_before_the_start_and_after_the_stop() -> None:
    async def scenario(cluster: Cluster) -> None:
        server = cluster.servers[0]
        discovery = cluster.discovery(server.address)
        discovery.request_round()
        await cluster.advance(INTERVAL_S)
        assert discovery.stats().rounds == 0

        discovery.start()
        await server.wait_requests(1)
        await discovery.stop()
        discovery.request_round()
        await cluster.advance(5 * INTERVAL_S)

        assert discovery.stats().rounds == 1

    run_with_cluster(scenario)


def test_stop_ends_questions_under_way() -> None:
    async def scenario(cluster: Cluster) -> None:
        server = cluster.servers[0]
        server.stalled.add("/lookup")
        discovery = cluster.discovery(server.address)
        discovery.start()
        await server.wait_requests(1)

        async with asyncio.timeout(LIMIT_S):
            await discovery.stop()

        assert cluster.found == []

    run_with_cluster(scenario)


def test_added_lookupd_is_asked_at_once() -> None:
    async def scenario(cluster: Cluster) -> None:
        cluster.answer(("a",), ("b",))
        one, two = cluster.servers
        discovery = cluster.discovery(one.address)
        discovery.start()
        await cluster.wait_found(1)

        discovery.add(two.address)
        discovery.add(f"http://{two.address}/")
        await cluster.wait_found(2)

        assert cluster.found[1] == {"b:4150"}
        assert discovery.addresses == [one.address, two.address]
        assert len(one.requests) == 1

    run_with_cluster(scenario)


def test_removed_lookupd_is_not_asked_any_more() -> None:
    async def scenario(cluster: Cluster) -> None:
        cluster.answer(("a",), ("b",))
        one, two = cluster.servers
        discovery = cluster.discovery(lookupd_poll_jitter=0)
        discovery.start()
        await cluster.wait_found(2)

        discovery.remove(two.address)
        await cluster.advance(INTERVAL_S)
        await cluster.wait_found(3)

        assert (len(one.requests), len(two.requests)) == (2, 1)

    run_with_cluster(scenario)


def test_unknown_and_last_lookupd_cannot_be_removed() -> None:
    async def scenario(cluster: Cluster) -> None:
        discovery = cluster.discovery("a:1")

        with pytest.raises(InvalidArgumentError, match="is not in use"):
            discovery.remove("b:1")
        with pytest.raises(InvalidArgumentError, match="is the only one left"):
            discovery.remove("a:1")

    run_with_cluster(scenario)


def test_what_is_no_address_is_refused_at_once() -> None:
    async def scenario(cluster: Cluster) -> None:
        with pytest.raises(InvalidArgumentError) as caught:
            cluster.discovery("http://user:hidden@h:port")
        assert "hidden" not in str(caught.value)

    run_with_cluster(scenario)


def test_useless_addresses_are_left_out() -> None:
    async def scenario(cluster: Cluster) -> None:
        cluster.answer(("", "a b", "a"), ())
        cluster.discovery(cluster.servers[0].address).start()

        await cluster.wait_found(1)

        assert cluster.found == [{"a:4150"}]

    run_with_cluster(scenario)


@pytest.mark.parametrize(("is_sent", "header"), [(True, "Bearer s3cret"), (False, None)])
def test_secret_is_sent_unless_switched_off(is_sent: bool, header: str | None) -> None:
    async def scenario(cluster: Cluster) -> None:
        server = cluster.servers[0]
        discovery = cluster.discovery(
            server.address, topic="t#ephemeral", auth_secret="s3cret", lookupd_authorization=is_sent
        )
        discovery.start()
        await server.wait_requests(1)

        assert server.requests[0].headers.get("authorization") == header
        assert server.requests[0].target == "/lookup?topic=t%23ephemeral"

    run_with_cluster(scenario)


def test_https_lookupd_is_trusted_as_configured(tmp_path) -> None:
    authority = CertificateAuthority(str(tmp_path))

    async def scenario(cluster: Cluster) -> None:
        async with FakeHttpServer(authority.issue_server()) as secure:
            secure.answers["/lookup"] = answer({"producers": [{"broadcast_address": "s", "tcp_port": 1}]})
            cluster.discovery(f"https://{secure.address}", tls_root_ca_file=authority.ca_file).start()

            await cluster.wait_found(1)

            assert cluster.found == [{"s:1"}]

    run_with_cluster(scenario)


def test_trust_that_cannot_be_made_is_told_at_once(tmp_path) -> None:
    async def scenario(cluster: Cluster) -> None:
        with pytest.raises(InvalidArgumentError, match="tls_root_ca_file"):
            cluster.discovery("https://h:1", tls_root_ca_file=str(tmp_path / "none.pem"))

    run_with_cluster(scenario)
