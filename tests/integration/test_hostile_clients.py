"""Clients that hold on to what they should not: time, memory, descriptors."""

import resource
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress

import pytest

from nsqlake.wire import commands
from tests.fakes.nsqd_process import NsqdProcess, wait_for
from tests.fakes.tcp_client import EOF, TcpClient

MB = 1_000_000
IDLE = 1_000

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", autouse=True)
def _many_descriptors() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 8192)), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.fixture(scope="module")
def nsqd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NsqdProcess]:
    with NsqdProcess(str(tmp_path_factory.mktemp("nsqd"))) as nsqd:
        nsqd.expect_alive()
        yield nsqd
        nsqd.expect_alive()
        assert "ERROR" not in nsqd.log


def test_slow_senders_are_all_cut_off(nsqd: NsqdProcess) -> None:
    descriptors = nsqd.descriptors
    with ExitStack() as stack:

        def open_clients(count: int, **options: object) -> list[TcpClient]:
            return [stack.enter_context(nsqd.connect(**options)) for _ in range(count)]

        silent = open_clients(100, magic=b"") + open_clients(100, magic=b"  ")
        lines, bodies = open_clients(50), open_clients(50)
        for client in lines + bodies:
            client.identify(heartbeat_interval=1000)
        for client in bodies:
            client.send(b"MPUB slow#ephemeral\n\x00\x00\x03\xe8\x00\x00\x00\x01\x00\x00\x03\xe0")

        begin = time.monotonic()
        dripping = lines + bodies
        while dripping:
            assert time.monotonic() - begin < 4
            dripping = [client for client in dripping if still_drips(client)]
        for client in silent:
            assert client.frame() is EOF

    assert time.monotonic() - begin < 7
    wait_for(lambda: nsqd.descriptors <= descriptors + 1)


def still_drips(client: TcpClient) -> bool:
    try:
        client.send(b"A")
        frame = client.frame(0.001)
    except TimeoutError:
        return True
    except ConnectionError:
        return False
    return frame is not EOF and frame.type.name != "ERROR"  # type: ignore[union-attr]


def cut_off_count(nsqd: NsqdProcess) -> int:
    return nsqd.log.count("closed, does not read what it is sent")


def finish_all(client: TcpClient, count: int) -> list[bytes]:
    heads = []
    for _ in range(count):
        message = client.message()
        heads.append(message.body[:6])
        client.fin(message)
    return heads


def test_consumer_that_never_reads_costs_little_memory_and_loses_nothing(nsqd: NsqdProcess) -> None:
    """As many messages as fit into the test's time; the memory does not depend on their number."""
    count = 150
    with (
        nsqd.connect(receive_buffer=4096) as slow,
        nsqd.connect() as other,
        nsqd.connect() as heir,
        nsqd.connect() as producer,
    ):
        slow.identify(heartbeat_interval=1000)
        slow.sub("big", "shared", 2500)
        other.sub("big", "separate", 2500)
        before, cut_off = nsqd.rss_bytes, cut_off_count(nsqd)
        nsqd.reset_peak()

        begin = time.monotonic()
        for number in range(count):
            producer.pub("big", b"%06d" % number + b"x" * (1_048_576 - 6))
        received_elsewhere = finish_all(other, count)
        wait_for(lambda: cut_off_count(nsqd) > cut_off)
        cut_s = time.monotonic() - begin
        heir.sub("big", "shared", 2500)

        numbers = [b"%06d" % number for number in range(count)]
        assert received_elsewhere == numbers
        assert sorted(finish_all(heir, count)) == numbers
        assert cut_s < 10
        assert nsqd.peak_rss_bytes - before < 64 * MB


def test_consumer_that_never_reads_is_cut_off_within_two_heartbeats(nsqd: NsqdProcess) -> None:
    with nsqd.connect(receive_buffer=4096) as slow, nsqd.connect() as producer:
        slow.identify(heartbeat_interval=1000)
        slow.sub("other", "c", 2500)
        cut_off, begin = cut_off_count(nsqd), time.monotonic()
        producer.pub("other", *[b"x" * MB] * 8)

        while cut_off_count(nsqd) == cut_off:
            assert time.monotonic() - begin < 2
            with suppress(ConnectionError):
                slow.send(commands.nop())


def test_producer_that_never_reads_its_answers_is_stopped(nsqd: NsqdProcess) -> None:
    with nsqd.connect(receive_buffer=4096) as producer:
        producer.identify(heartbeat_interval=1000)
        before = nsqd.rss_bytes
        nsqd.reset_peak()
        begin = time.monotonic()

        with suppress(ConnectionError):
            while time.monotonic() - begin < 10:
                producer.send(commands.pub("flood#ephemeral", b"x") * 1000)

        assert time.monotonic() - begin < 5
        assert nsqd.peak_rss_bytes - before < 16 * MB


def test_idle_connections_are_cheap_and_leave_nothing(nsqd: NsqdProcess) -> None:
    descriptors, before = nsqd.descriptors, nsqd.rss_bytes
    with ExitStack() as stack:
        idle = [stack.enter_context(nsqd.connect()) for _ in range(IDLE)]
        wait_for(lambda: nsqd.descriptors >= IDLE)

        assert (nsqd.rss_bytes - before) / IDLE < 60_000
        with nsqd.connect() as busy:
            busy.pub("t", *[b"x"] * 200)
        for client in idle:
            client.expect_nothing_so_far()

    wait_for(lambda: nsqd.descriptors <= descriptors + 1)


def test_without_descriptors_the_daemon_waits_quietly_and_recovers(tmp_path: object) -> None:
    with NsqdProcess(str(tmp_path), max_descriptors=128) as nsqd, ExitStack() as stack:
        first = stack.enter_context(nsqd.connect())
        first.pub("before", b"x")
        others = [stack.enter_context(nsqd.connect()) for _ in range(120)]
        wait_for(lambda: "connection limit reached" in nsqd.log)
        cpu_s, lines, begin = nsqd.cpu_s, nsqd.log.count("\n"), time.monotonic()

        first.expect_silence(2.0)
        spent_s = time.monotonic() - begin

        assert (nsqd.cpu_s - cpu_s) / spent_s < 0.10
        assert (nsqd.log.count("\n") - lines) / spent_s < 5
        first.pub("before", b"x")
        first.pub("a-new-topic", b"x")
        for client in others:
            client.close()
        nsqd.expect_alive()
        assert "ERROR" not in nsqd.log
