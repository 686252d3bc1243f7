"""Junk, bombs and floods against a daemon in a process of its own: it stays small, quick and alive."""

import random
import re
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest

from nsqlake.wire import commands
from nsqlake.wire.compression import SnappyEncoder
from nsqlake.wire.frame_reader import FrameReader
from tests.fakes.junk import junk
from tests.fakes.nsqd_process import NsqdProcess, wait_for
from tests.fakes.tcp_client import TcpClient

MB = 1_000_000
LOG_LINE = re.compile(r"\[nsqd\] \d{4}/\d\d/\d\d \d\d:\d\d:\d\d\.\d{6} (DEBUG|INFO|WARNING|ERROR|FATAL): ")

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def nsqd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NsqdProcess]:
    with NsqdProcess(str(tmp_path_factory.mktemp("nsqd")), "--log-level=debug") as nsqd:
        nsqd.expect_alive()
        yield nsqd
        nsqd.expect_alive()
        assert_log_is_sound(nsqd)


def assert_log_is_sound(nsqd: NsqdProcess) -> None:
    for line in nsqd.log.split("\n")[:-1]:
        head = LOG_LINE.match(line)
        assert head, line
        assert line.isprintable(), line
        assert head[1] not in ("ERROR", "FATAL"), line


def drain(client: TcpClient) -> int:
    """Read frames until the server closes; the number of frames."""
    count = 0
    while client.frame() is not None:
        count += 1
    return count


def deflate(data: bytes, repeats: int = 1) -> bytes:
    compressor = zlib.compressobj(9, zlib.DEFLATED, -15)
    pieces = [compressor.compress(data) for _ in range(repeats)]
    return b"".join(pieces) + compressor.flush(zlib.Z_SYNC_FLUSH)


def snappy(data: bytes, repeats: int = 1) -> bytes:
    encoder = SnappyEncoder()
    return b"".join(encoder.encode(data) for _ in range(repeats))


def layered(nsqd: NsqdProcess, feature: str) -> TcpClient:
    """A client that sends what it likes where the daemon expects `feature`."""
    client = nsqd.connect()
    client.identify(**{feature: True})
    client._encoder = None
    return client


def test_thousands_of_junk_inputs_leave_nothing_behind(nsqd: NsqdProcess) -> None:
    for seed in range(1500):  # what the allocator and the topics take once
        send_junk(nsqd, seed)
    rss_bytes, descriptors = nsqd.rss_bytes, nsqd.descriptors

    for seed in range(1500, 4000):
        send_junk(nsqd, seed)

    wait_for(lambda: nsqd.descriptors <= descriptors + 10)  # some junk makes topics
    assert nsqd.rss_bytes - rss_bytes < 10 * MB


def send_junk(nsqd: NsqdProcess, seed: int) -> None:
    """Whatever is sent, what comes back is frames, which may become compressed, and then the end."""
    received = b""
    with nsqd.connect(magic=b"") as client:
        with suppress(ConnectionError):
            client.send(junk(seed))
            client.finish_sending()
        with suppress(ConnectionResetError):
            while piece := client.socket.recv(1 << 16):
                received += piece
    if not re.search(rb'"(snappy|deflate)":true', received):
        reader = FrameReader()
        reader.feed(received)
        assert reader.error is None, f"seed {seed}: {received!r}"


@pytest.mark.parametrize(("feature", "encode"), [("deflate", deflate), ("snappy", snappy)])
def test_compressed_bomb_behind_a_declared_size_costs_no_memory(
    nsqd: NsqdProcess, feature: str, encode: Callable[[bytes, int], bytes]
) -> None:
    header = b"PUB bomb#ephemeral\n" + (1000).to_bytes(4, "big")
    nsqd.reset_peak()
    before = nsqd.rss_bytes

    with layered(nsqd, feature) as client:
        with suppress(ConnectionError):
            client.send(encode(header + b"\0" * MB, 100))
        drain(client)

    assert nsqd.peak_rss_bytes - before < 16 * MB


def test_mpub_that_goes_on_behind_its_declared_size_is_cut_off_there(nsqd: NsqdProcess) -> None:
    body = (1).to_bytes(4, "big") + (1000).to_bytes(4, "big") + b"x" * 1000
    nsqd.reset_peak()
    before = nsqd.rss_bytes

    with nsqd.connect() as client:
        with suppress(ConnectionError):
            client.send(b"MPUB bomb#ephemeral\n", (len(body)).to_bytes(4, "big"), body, b"\0" * 50 * MB)
        drain(client)

    assert nsqd.peak_rss_bytes - before < 16 * MB


@pytest.mark.parametrize("name", [b"PUB big\n", b"MPUB big\n", b"IDENTIFY\n", b"AUTH\n"])
def test_declared_sizes_are_refused_before_anything_is_kept(nsqd: NsqdProcess, name: bytes) -> None:
    nsqd.reset_peak()
    before = nsqd.rss_bytes

    with nsqd.connect() as client:
        with suppress(ConnectionError):
            client.send(name, (2**31 - 1).to_bytes(4, "big"), b"\x00\x00\x00\x01" * 5_000_000)
        assert "too big 2147483647" in client.error()

    assert nsqd.peak_rss_bytes - before < 16 * MB


@pytest.mark.parametrize(
    "flood",
    [b"NOP\n" * 400_000, b"FIN 0123456789abcdef\n" * 50_000, b"RDY 1\n" * 200_000],
    ids=["NOP", "FIN", "RDY"],
)
def test_flood_of_commands_does_not_stall_other_clients(nsqd: NsqdProcess, flood: bytes) -> None:
    slowest_s = 0.0
    with nsqd.connect() as attacker, nsqd.connect() as other:
        attacker.sub("flood#ephemeral", "c#ephemeral")
        other.pub("other#ephemeral", b"x")
        attacker.socket.setblocking(False)

        while flood:
            with suppress(BlockingIOError):
                flood = flood[attacker.socket.send(flood) :]
            with suppress(BlockingIOError):
                attacker.socket.recv(1 << 20)
            begin = time.monotonic()
            other.pub("other#ephemeral", b"x")
            slowest_s = max(slowest_s, time.monotonic() - begin)

    assert slowest_s < 0.25


def test_compressed_flood_of_commands_does_not_stall_other_clients(nsqd: NsqdProcess) -> None:
    slowest_s = 0.0
    with layered(nsqd, "deflate") as attacker, nsqd.connect() as other:
        attacker.send(deflate(b"NOP\n" * 250_000))
        attacker.finish_sending()

        for _ in range(100):
            begin = time.monotonic()
            other.pub("other#ephemeral", b"x")
            slowest_s = max(slowest_s, time.monotonic() - begin)

    assert slowest_s < 0.25


FORGED = "[nsqd] 2026/01/01 00:00:00.000000 ERROR: forged"


@pytest.mark.parametrize(
    "separator", ["\n", "\r", "\r\n", "\v", "\f", "\x00", "\x1b[2K\x1b[1A", "\x85", "\u2028", "\u2029"]
)
def test_no_text_of_a_client_makes_a_line_in_the_log(nsqd: NsqdProcess, separator: str) -> None:
    forged = f"x{separator}{FORGED}"
    sent = [
        forged.encode() + b"\n",
        f"SUB {forged} c\n".encode(),
        f"SUB t {forged}\n".encode(),
        f"PUB {forged}\n".encode(),
        f"RDY {forged}\n".encode(),
        commands.identify({"client_id": forged, "hostname": forged, "user_agent": forged}),
    ]

    for each in sent:
        with nsqd.connect() as client, suppress(ConnectionError):
            client.send(each)
            client.finish_sending()
            drain(client)

    assert_log_is_sound(nsqd)


def test_log_of_refusals_is_limited(nsqd: NsqdProcess) -> None:
    before = len(nsqd.log.split("WARNING"))

    for _ in range(300):
        with nsqd.connect() as client:
            client.send(b"FOO\n")
            drain(client)

    assert len(nsqd.log.split("WARNING")) - before < 150


def test_message_bodies_and_secrets_are_not_logged(nsqd: NsqdProcess) -> None:
    with nsqd.connect() as client:
        client.pub("private", b"body-that-is-nobodys-business")
        client.send(commands.auth(b"secret-that-is-nobodys-business"))
        client.expect_fatal("E_AUTH_DISABLED AUTH disabled")

    assert "nobodys-business" not in nsqd.log


def send_until_choked(client: TcpClient, data: bytes) -> int:
    """How much the daemon took of it before it stopped reading."""
    sent = 0
    client.socket.settimeout(0.5)
    with suppress(TimeoutError):
        while sent < len(data):
            sent += client.socket.send(data[sent : sent + 65_536])
    return sent


def test_client_that_reads_no_answers_is_not_read_either_until_it_does(nsqd: NsqdProcess) -> None:
    command = commands.pub("flood#ephemeral", b"x")
    nsqd.reset_peak()
    before = nsqd.rss_bytes
    with nsqd.connect(receive_buffer=65_536) as client:
        client.sub("flood#ephemeral", "c#ephemeral")

        sent = send_until_choked(client, command * 1_000_000)
        assert sent < len(command) * 1_000_000
        assert nsqd.peak_rss_bytes - before < 16 * MB

        answers = [client.frame() for _ in range(sent // len(command))]
        assert None not in answers


def plain(data: bytes) -> bytes:
    return data


@pytest.mark.parametrize(("feature", "encode"), [("none", plain), ("deflate", deflate), ("snappy", snappy)])
def test_bomb_of_commands_whose_answers_are_not_read_costs_no_memory(
    nsqd: NsqdProcess, feature: str, encode: Callable[[bytes], bytes]
) -> None:
    chance = random.Random(1)
    flood = b"".join(b"FIN %016x\n" % chance.getrandbits(64) for _ in range(200_000))
    nsqd.reset_peak()
    before = nsqd.rss_bytes

    with nsqd.connect(receive_buffer=4096) as client:
        client.identify(**{feature: True})
        client.sub("flood#ephemeral", "c#ephemeral")
        send_until_choked(client, encode(flood))

    assert nsqd.peak_rss_bytes - before < 16 * MB
