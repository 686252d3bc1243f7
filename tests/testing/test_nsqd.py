import os
import socket

import pytest

from nsqlake.nsqd.daemon import Daemon
from nsqlake.runtime.errors import ConfigurationError, StartupError
from nsqlake.testing.nsqd import running_nsqd
from tests.fakes.tcp_client import TcpClient


def test_nsqd_listens_on_a_port_of_its_own() -> None:
    with running_nsqd() as one, running_nsqd() as other:
        assert one.tcp_port != other.tcp_port
        assert one.tcp_address == f"127.0.0.1:{one.tcp_port}"


def test_nsqd_has_the_options_it_was_given() -> None:
    with running_nsqd(node_id=7) as nsqd:
        assert nsqd.options.node_id == 7


def test_data_path_goes_with_the_nsqd() -> None:
    with running_nsqd() as nsqd, TcpClient(nsqd.tcp_address) as client:
        client.pub("t", b"x")
        path = nsqd.options.data_path
        assert os.listdir(path)

    assert not os.path.exists(path)


def test_given_data_path_stays(tmp_path: os.PathLike[str]) -> None:
    with running_nsqd(data_path=str(tmp_path)) as nsqd, TcpClient(nsqd.tcp_address) as client:
        client.pub("t", b"x")

    assert os.listdir(tmp_path)


def test_calls_run_on_the_loop_of_the_daemon_and_may_be_coroutines() -> None:
    async def count_topics(daemon: Daemon) -> int:
        return len(daemon.broker.topics)

    with running_nsqd() as nsqd:
        assert nsqd.call(count_topics) == 0
        assert nsqd.call(lambda daemon: daemon is nsqd.daemon)
        with pytest.raises(ZeroDivisionError):
            nsqd.call(lambda _: 1 // 0)


def test_what_hinders_the_start_is_raised() -> None:
    with running_nsqd() as nsqd, pytest.raises(StartupError), running_nsqd(tcp_address=nsqd.tcp_address):
        pass

    with pytest.raises(ConfigurationError), running_nsqd(node_id=-1):
        pass


def test_port_is_closed_after_the_stop() -> None:
    with running_nsqd() as nsqd:
        port = nsqd.tcp_port

    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port))
