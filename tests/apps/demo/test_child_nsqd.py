import socket
from pathlib import Path

from nsqlake.apps.demo.child_nsqd import ChildNsqd, choose_port
from tests.integration.support import eventually


def test_a_free_port_is_taken() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]

    assert choose_port(port) == port


def test_another_port_is_chosen_when_somebody_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        assert choose_port(server.getsockname()[1]) == 0


def test_a_second_nsqd_on_one_directory_tells_why_it_stopped(tmp_path: Path) -> None:
    first = ChildNsqd(str(tmp_path), 0)
    try:
        eventually(lambda: first.port is not None)

        second = ChildNsqd(str(tmp_path), 0)
        eventually(lambda: second.exit_code is not None)

        assert second.stop() == 1
        assert "possibly in use by another instance of nsqd" in second.last_line
    finally:
        assert first.stop() == 0
