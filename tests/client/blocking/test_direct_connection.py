"""One command and its answer on a socket that the caller waits for."""

import select
import socket
import threading
from collections.abc import Iterator
from time import monotonic

import pytest

from nsqlake.client.blocking.direct_connection import DirectConnection
from nsqlake.wire.errors import StreamError
from nsqlake.wire.frames import HEARTBEAT_FRAME, OK_FRAME, FrameType
from tests.fakes.nsqd_process import wait_for
from tests.fakes.scripted_nsqd import error, message, response

LIMIT_S = 10.0


@pytest.fixture
def ends() -> Iterator[tuple[DirectConnection, socket.socket]]:
    """The connection, and the socket of who answers."""
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    connection = DirectConnection(ours)
    with theirs:
        yield connection, theirs
    connection.close()


Ends = tuple[DirectConnection, socket.socket]


def soon() -> float:
    return monotonic() + LIMIT_S


def test_an_ok_is_read_and_nothing_behind_it(ends: Ends) -> None:
    connection, nsqd = ends
    nsqd.sendall(OK_FRAME)
    assert connection.read_answer(soon()) is None
    assert connection.is_silent

    nsqd.sendall(OK_FRAME + OK_FRAME)
    assert connection.read_answer(soon()) is None
    assert not connection.is_silent


@pytest.mark.parametrize(
    ("sent", "answer"),
    [
        (error("E_BAD_TOPIC no"), (FrameType.ERROR, b"E_BAD_TOPIC no")),
        (error("E"), (FrameType.ERROR, b"E")),
        (response(b"CLOSE_WAIT"), (FrameType.RESPONSE, b"CLOSE_WAIT")),
        (response(b""), (FrameType.RESPONSE, b"")),
        (HEARTBEAT_FRAME * 3 + OK_FRAME, (FrameType.RESPONSE, b"OK")),
        (message(b"x" * 1000), (FrameType.MESSAGE, message(b"x" * 1000)[8:])),
    ],
)
def test_every_other_answer_is_a_frame(ends: Ends, sent: bytes, answer: tuple[FrameType, bytes]) -> None:
    connection, nsqd = ends
    nsqd.sendall(sent)
    assert connection.read_answer(soon()) == answer


@pytest.mark.parametrize("cut", range(1, len(OK_FRAME)))
def test_an_answer_may_come_in_pieces(ends: Ends, cut: int) -> None:
    connection, nsqd = ends
    answers: list[object] = []
    reader = threading.Thread(target=lambda: answers.append(connection.read_answer(soon())))
    nsqd.sendall(OK_FRAME[:cut])
    reader.start()
    wait_for(lambda: not select.select([connection._socket], [], [], 0)[0])  # the first piece was read
    nsqd.sendall(OK_FRAME[cut:])
    reader.join(LIMIT_S)
    assert answers in ([None], [(FrameType.RESPONSE, b"OK")])


@pytest.mark.parametrize(
    "junk",
    [
        b"\x00\x00\x00\x06\x00\x00\x00\x07OK",
        b"\xff\xff\xff\xff\x00\x00\x00\x00OK",
        b"\x7f\xff\xff\xff\x00\x00\x00\x00OK",
        b"\x00\x00\x00\x00\x00\x00\x00\x00OK",
        b"HTTP/1.1 400 Bad Request\r\n",
    ],
)
def test_what_is_no_frame_is_refused_before_more_is_read(ends: Ends, junk: bytes) -> None:
    connection, nsqd = ends
    nsqd.sendall(junk)
    with pytest.raises(StreamError):
        connection.read_answer(soon())


@pytest.mark.parametrize("begin", [b"", OK_FRAME[:9], error("E_BAD_TOPIC no")[:-1]])
def test_an_answer_that_ends_too_soon_is_a_lost_connection(ends: Ends, begin: bytes) -> None:
    connection, nsqd = ends
    nsqd.sendall(begin)
    nsqd.shutdown(socket.SHUT_WR)
    with pytest.raises(ConnectionResetError, match="closed by nsqd"):
        connection.read_answer(soon())


@pytest.mark.parametrize("begin", [b"", OK_FRAME[:3], OK_FRAME[:9], HEARTBEAT_FRAME])
def test_an_answer_is_waited_for_until_the_time_is_over(ends: Ends, begin: bytes) -> None:
    connection, nsqd = ends
    nsqd.sendall(begin)
    with pytest.raises(TimeoutError):
        connection.read_answer(monotonic() + 0.01)


def test_it_is_not_silent_once_the_peer_has_closed(ends: Ends) -> None:
    connection, nsqd = ends
    assert connection.is_silent
    nsqd.close()
    assert not connection.is_silent
    with pytest.raises(BrokenPipeError):
        connection.send(b"NOP\n", soon(), LIMIT_S)


def test_what_the_peer_is_slow_to_take_is_sent_all_the_same(ends: Ends) -> None:
    connection, nsqd = ends
    data = bytes(range(256)) * 20_000
    sender = threading.Thread(target=connection.send, args=(data, soon(), LIMIT_S))
    sender.start()
    received = bytearray()
    while len(received) < len(data):
        received += nsqd.recv(65_536)
    sender.join(LIMIT_S)
    assert received == data


@pytest.mark.parametrize(("limit_s", "stall_limit_s"), [(LIMIT_S, 0.01), (0.01, LIMIT_S)])
def test_a_peer_that_takes_nothing_is_not_waited_for(
    ends: Ends, limit_s: float, stall_limit_s: float
) -> None:
    connection, _ = ends
    with pytest.raises(TimeoutError):
        connection.send(b"x" * 5_000_000, monotonic() + limit_s, stall_limit_s)


def test_another_thread_may_end_the_wait(ends: Ends) -> None:
    connection, _ = ends
    threading.Timer(0.01, connection.interrupt).start()
    with pytest.raises(ConnectionResetError):
        connection.read_answer(soon())
