"""One daemon per data path, whatever it is called, and never over files that are not ours."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.crash.client import Client, create_channels
from tests.crash.conftest import StartNsqd
from tests.crash.harness import Nsqd

pytestmark = pytest.mark.slow

TOPIC = "orders"


def test_a_second_daemon_is_refused_and_the_first_unharmed(start_nsqd: StartNsqd, tmp_path: Path) -> None:
    first = start_nsqd()
    create_channels(first.port, TOPIC, "worked")

    second = start_nsqd(wait=False)

    assert second.wait_until_ended() == 1
    assert "possibly in use by another instance of nsqd" in second.log
    publish(first, TOPIC, b"hello")
    assert receive(first, TOPIC, "worked") == b"hello"


def test_a_data_path_is_free_again_after_a_kill(start_nsqd: StartNsqd) -> None:
    first = start_nsqd()
    first.kill()

    second = start_nsqd()

    assert second.is_running


@pytest.mark.parametrize("name", ["100% of it with blanks\tand tabs", "%s%n{0}*?[a]", "-ünïcödé"])
def test_a_data_path_may_be_called_anything(start_nsqd: StartNsqd, tmp_path: Path, name: str) -> None:
    nsqd = start_nsqd(data_path=tmp_path / name)
    create_channels(nsqd.port, TOPIC, "worked")
    publish(nsqd, TOPIC, b"hello")
    nsqd.kill()

    nsqd.restart()

    assert receive(nsqd, TOPIC, "worked") == b"hello"


def test_topics_and_channels_may_be_called_like_files(start_nsqd: StartNsqd) -> None:
    names = [".", "..", "-", "a.topic", "a" * 64, "nsqd.dat", "x.diskqueue.meta.dat", "boot.0", "state.1.tmp"]
    nsqd = start_nsqd()
    for name in names:
        create_channels(nsqd.port, name, name)
        publish(nsqd, name, name.encode())
    nsqd.kill()

    nsqd.restart()

    assert [receive(nsqd, name, name) for name in names] == [name.encode() for name in names]


def publish(nsqd: Nsqd, topic: str, body: bytes) -> None:
    with Client(nsqd.port) as client:
        client.publish(topic, body)


def receive(nsqd: Nsqd, topic: str, channel: str) -> bytes:
    with Client(nsqd.port) as consumer:
        consumer.subscribe(topic, channel, ready=1)
        (message,) = consumer.gather(1)
    return message.body


@pytest.fixture
def read_only_path(tmp_path: Path) -> Iterator[Path]:
    """A directory nobody may write to, root included."""
    path = tmp_path / "read-only"
    path.mkdir()
    if os.geteuid() != 0:
        path.chmod(0o500)
        yield path
        path.chmod(0o700)
        return
    made = subprocess.run(["mount", "-t", "tmpfs", "-o", "ro,size=1m", "none", str(path)], check=False)
    if made.returncode:
        pytest.skip("root may write everywhere, and cannot mount a read-only disk here")
    yield path
    subprocess.run(["umount", "-l", str(path)], check=True)


def test_a_read_only_data_path_is_refused_with_the_reason(
    start_nsqd: StartNsqd, read_only_path: Path
) -> None:
    nsqd = start_nsqd(data_path=read_only_path, wait=False)

    assert nsqd.wait_until_ended() == 1
    assert f"--data-path {read_only_path} is not writable by user id {os.geteuid()}" in nsqd.log
    assert len(nsqd.log.splitlines()) <= 5


def test_a_data_path_that_does_not_exist_is_refused(start_nsqd: StartNsqd, tmp_path: Path) -> None:
    nsqd = start_nsqd(wait=False, data_path=tmp_path / "data")
    nsqd.close()
    nsqd.data_path.rmdir()

    nsqd.spawn()

    assert nsqd.wait_until_ended() == 1
    assert "no such file or directory" in nsqd.log


@pytest.mark.parametrize(
    "name", ["nsqd.dat", "orders.diskqueue.000000.dat", "orders:worked.diskqueue.meta.dat"]
)
def test_files_of_the_go_nsqd_are_refused_and_left_alone(
    start_nsqd: StartNsqd, tmp_path: Path, name: str
) -> None:
    data_path = tmp_path / "data"
    data_path.mkdir()
    (data_path / name).write_bytes(b"of somebody else")

    nsqd = start_nsqd(wait=False)

    assert nsqd.wait_until_ended() == 1
    assert "holds files of the Go nsqd" in nsqd.log
    assert [path.name for path in data_path.iterdir()] == [name]
    assert (data_path / name).read_bytes() == b"of somebody else"


def test_files_of_others_in_the_data_path_are_left_alone(start_nsqd: StartNsqd, tmp_path: Path) -> None:
    data_path = tmp_path / "data"
    data_path.mkdir()
    others = {"notes.txt": b"mine", "draft.1.tmp": b"mine too", "boots.0": b"and mine"}
    for name, content in others.items():
        (data_path / name).write_bytes(content)
    nsqd = start_nsqd()
    create_channels(nsqd.port, TOPIC, "worked")
    nsqd.kill()

    nsqd.restart()
    nsqd.stop()

    assert {name: (data_path / name).read_bytes() for name in others} == others
