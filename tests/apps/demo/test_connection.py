"""The demo's small client."""

import socket
from threading import Timer

from nsqlake.apps.demo.connection import Connection
from nsqlake.wire.frames import HEARTBEAT_FRAME, OK_FRAME


def test_a_heartbeat_before_the_answer_is_not_taken_for_silence():
    with socket.create_server(("127.0.0.1", 0)) as server:
        connection = Connection(server.getsockname())
        peer, _ = server.accept()
        with peer:
            peer.sendall(HEARTBEAT_FRAME)
            answering = Timer(0.2, peer.sendall, [OK_FRAME])
            answering.start()

            connection.ask(b"PUB t\n")

            answering.join()
        connection.close()
