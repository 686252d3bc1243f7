"""Heartbeats and deadlines. The shortest heartbeat NSQ allows is a second, so these tests take some.

Clients that have to be watched for two heartbeats and more are watched at the same time.
"""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import NamedTuple

import pytest

from nsqlake.testing.nsqd import NsqdFixture
from nsqlake.wire import commands
from nsqlake.wire.frame_reader import Frame
from tests.fakes.tcp_client import EOF, TcpClient
from tests.integration.conftest import Connect
from tests.integration.support import eventually, figures

WATCHED_S = 2.6


class Story(NamedTuple):
    """What became of one client, in seconds since its IDENTIFY."""

    heartbeats: list[float]
    last_frame: Frame | None
    ended_s: float | None


def beating(client: TcpClient, **fields: object) -> float:
    """Identify with the shortest heartbeat; returns when that was."""
    client.identify(heartbeat_interval=1000, **fields)
    return time.monotonic()


def watch(nsqd: NsqdFixture, act: Callable[[TcpClient], None], first: bytes) -> Story:
    """Send `first`, then `act` every 0.2 s until the server closes or the time is over."""
    last_frame = None
    with TcpClient(nsqd.tcp_address) as client:
        begin = beating(client)
        client.send(first)
        while (elapsed_s := time.monotonic() - begin) < WATCHED_S:
            try:
                frame = client.frame(0.2)
            except TimeoutError:
                act(client)
                continue
            elapsed_s = time.monotonic() - begin
            if frame is EOF:
                return Story([at - begin for at in client.heartbeats], last_frame, elapsed_s)
            last_frame = frame
    return Story([at - begin for at in client.heartbeats], last_frame, None)


PUB = commands.pub("watched", b"x" * 100)

CLIENTS: dict[str, tuple[bytes, Callable[[TcpClient], None]]] = {
    "silent": (b"", lambda client: None),
    "drips a line": (b"", lambda client: client.send(b"A")),
    "drips a body": (PUB[:50], lambda client: client.send(b"A")),
    "stalls in a body": (PUB[:50], lambda client: None),
    "sends NOP": (b"", lambda client: client.send(commands.nop())),
    "ends every piece within a command": (PUB[:50], lambda client: client.send(PUB[50:] + PUB[:50])),
}


@pytest.fixture(scope="module")
def stories(nsqd: NsqdFixture) -> Iterator[dict[str, "Future[Story]"]]:
    with ThreadPoolExecutor(len(CLIENTS)) as pool:
        yield {name: pool.submit(watch, nsqd, act, first) for name, (first, act) in CLIENTS.items()}


Stories = dict[str, "Future[Story]"]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["silent", "drips a line", "drips a body", "stalls in a body"])
def test_client_without_a_whole_command_gets_two_heartbeats_and_is_cut_off(
    stories: Stories, name: str
) -> None:
    story = stories[name].result()

    assert [round(beat_s) for beat_s in story.heartbeats] == [1, 2]
    assert story.ended_s is not None
    assert 1.9 < story.ended_s < 2.5


@pytest.mark.slow
@pytest.mark.parametrize("name", ["silent", "drips a line"])
def test_deadline_before_a_command_is_not_explained(stories: Stories, name: str) -> None:
    assert stories[name].result().last_frame is None


@pytest.mark.slow
@pytest.mark.parametrize("name", ["drips a body", "stalls in a body"])
def test_deadline_within_a_body_is_told(stories: Stories, name: str) -> None:
    frame = stories[name].result().last_frame

    assert frame is not None
    assert frame.payload == b"E_BAD_MESSAGE PUB failed to read message body"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["sends NOP", "ends every piece within a command"])
def test_commands_keep_a_client_alive(stories: Stories, name: str) -> None:
    story = stories[name].result()

    assert story.ended_s is None
    assert len(story.heartbeats) == 2


def test_heartbeats_go_on_after_cls(client: TcpClient, topic: str) -> None:
    beating(client)
    client.sub(topic, "channel")
    client.send(commands.cls())
    client.expect_close_wait()

    client.heartbeat()


def test_heartbeat_brings_messages_that_were_held_back(
    nsqd: NsqdFixture, connect: Connect, topic: str
) -> None:
    consumer = connect(nsqd)
    begin = beating(consumer, output_buffer_timeout=-1)
    consumer.sub(topic, "channel", 2)
    connect(nsqd).pub(topic, b"held back")
    eventually(lambda: figures(nsqd, topic, "channel").in_flight == 1)

    message = consumer.message()

    assert message.body == b"held back"
    assert time.monotonic() - begin > 0.9
    consumer.heartbeat()


def test_without_heartbeats_nothing_is_sent_to_an_idle_client(client: TcpClient, topic: str) -> None:
    client.identify(heartbeat_interval=-1)

    client.expect_silence(1.2)

    client.pub(topic, b"x")


@pytest.mark.slow
def test_consumer_that_does_not_read_is_cut_off_and_others_get_its_messages(
    nsqd: NsqdFixture, connect: Connect, topic: str
) -> None:
    slow, producer = connect(nsqd, receive_buffer=4096), connect(nsqd)
    beating(slow)
    slow.sub(topic, "channel", 2500)
    bodies = [b"%05d" % number + b"x" * 100_000 for number in range(100)]

    for body in bodies:
        producer.pub(topic, body)
    while figures(nsqd, topic, "channel").consumers:
        with suppress(ConnectionError):
            slow.send(commands.nop())
    other = connect(nsqd)
    other.sub(topic, "channel", 2500)

    assert time.monotonic() - slow.opened_at < 4
    assert sorted(message.body for message in other.messages(100)) == bodies
