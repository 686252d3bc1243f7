"""Copies of a data path, of a stopped nsqd and of a killed one: they verify, start and deliver everything."""

import contextlib
import shutil
from pathlib import Path

import pytest

from nsqlake.apps.nsqlake import main
from tests.fakes.nsqd_process import NsqdProcess

pytestmark = [pytest.mark.slow]

TOPIC, CHANNEL = "orders", "archive"
SMALL_FILES = "--max-bytes-per-file=100000"
BODIES = [b"%0500d" % i for i in range(2_000)]
FINISHED = 700


def publish_and_finish_some(nsqd: NsqdProcess) -> None:
    with nsqd.connect() as consumer:
        consumer.sub(TOPIC, CHANNEL)
        with nsqd.connect() as producer:
            for at in range(0, len(BODIES), 100):
                producer.mpub(TOPIC, BODIES[at : at + 100])
        consumer.send(b"RDY 700\n")
        received = consumer.messages(FINISHED)
        consumer.send(b"RDY 0\n")
        consumer.fin(*received)


def drained(folder: Path) -> set[bytes]:
    """The messages that an nsqd on the copy delivers until there is nothing for half a second."""
    bodies: set[bytes] = set()
    with NsqdProcess(str(folder), SMALL_FILES) as nsqd, nsqd.connect() as consumer:
        consumer.sub(TOPIC, CHANNEL, rdy=500)
        with contextlib.suppress(TimeoutError):
            while True:
                message = consumer.message(limit_s=0.5 if bodies else 5.0)
                bodies.add(message.body)
                consumer.fin(message)
    return bodies


def copy(source: Path, target: Path) -> Path:
    target.mkdir()
    shutil.copytree(source / "data", target / "data")
    return target


@pytest.mark.parametrize("is_killed", [False, True])
def test_a_copy_verifies_and_delivers_everything(
    tmp_path: Path, is_killed: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    original = tmp_path / "original"
    original.mkdir()
    with NsqdProcess(str(original), SMALL_FILES) as nsqd:
        publish_and_finish_some(nsqd)
        if is_killed:
            nsqd.kill()

    backup = copy(original, tmp_path / "backup")

    assert main(["log", "verify", str(backup / "data")]) == 0
    assert "messages=" in capsys.readouterr().out
    bodies = drained(backup)
    assert set(BODIES[FINISHED:]) <= bodies
    assert bodies <= set(BODIES)
    assert drained(copy(original, tmp_path / "restored")) >= set(BODIES[FINISHED:])


def test_a_copy_of_a_running_nsqd_can_be_looked_at_and_the_original_needs_a_word(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    original = tmp_path / "original"
    original.mkdir()
    with NsqdProcess(str(original), SMALL_FILES) as nsqd:
        publish_and_finish_some(nsqd)

        assert main(["log", "verify", str(original / "data")]) == 2
        assert "in use by an nsqd (process " in capsys.readouterr().err
        assert main(["log", "verify", "--live", str(original / "data")]) == 0
        nsqd.expect_alive()
