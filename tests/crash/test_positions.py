"""What was answered of seek, commit, creation and cancelling holds after kill -9 and after a power loss."""

import subprocess
import sys
from pathlib import Path
from random import Random

import pytest

from nsqlake.nsqd.core.seeking import SeekTarget
from tests.crash.harness import REPOSITORY
from tests.crash.sim_broker import SECOND_NS, SimBroker, empty_disk
from tests.fakes.power_loss import Disk, Order
from tests.fakes.sim_files import SimFiles
from tests.nsqd.broker_on_disk import BrokerOnDisk

pytestmark = pytest.mark.slow

STATES = 60


def killed_after(path: Path, deed: str) -> int:
    """The first offset of what the victim published before it was killed."""
    command = [sys.executable, "-m", "tests.crash.positions_victim", str(path), deed]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=REPOSITORY) as victim:
        assert victim.stdout is not None
        try:
            return int(victim.stdout.readline())
        finally:
            victim.kill()


@pytest.mark.parametrize(
    ("deed", "channel", "ready", "deferred"),
    [("seek", "c", 5, 2), ("commit", "c", 5, 2), ("create", "other", 5, 2), ("cancel", "c", 10, 1)],
)
def test_a_kill_right_after_the_answer_changes_nothing(
    tmp_path: Path, deed: str, channel: str, ready: int, deferred: int
) -> None:
    base = killed_after(tmp_path, deed)

    with BrokerOnDisk(str(tmp_path)) as disk:
        found = disk.channel(name=channel)
        assert len(found.core.ledger.deferred) == deferred
        assert disk.drained(found) == list(range(base + 10 - ready, base + 10))


@pytest.mark.parametrize("order", Order, ids=lambda order: order.name.lower())
@pytest.mark.parametrize("deed", ["seek", "commit", "cancel"])
def test_a_power_loss_right_after_the_answer_changes_nothing(order: Order, deed: str) -> None:
    sim = SimBroker(SimFiles(empty_disk()))
    sim.start()
    sim.create_topic("t")
    sim.create_channel("t", "c")
    base = sim.publish("t", [10] * 20)
    sim.publish("t", [10] * 2, delay_ns=3600 * SECOND_NS)
    sim.sync("t")
    assert len(sim.take("t", "c", 8)) == 8
    channel = sim.topic("t").channels["c"]
    if deed == "seek":
        sim.run(sim.broker.seek(channel, SeekTarget.at_offset(base + 15)))
    elif deed == "commit":
        sim.run(sim.broker.commit(channel, base + 15))
    else:
        sim.run(sim.broker.cancel_deferred(channel))
    sim.close()

    lost = Disk(empty_disk())
    for op in sim.files.trace:
        lost.step(op)
    for image in lost.states(order, Random(deed), STATES):
        again = SimBroker(SimFiles(image))
        again.start()
        found = again.topic("t").channels["c"].core
        expected = (20, 0) if deed == "cancel" else (5, 2)
        assert (found.depth, len(found.ledger.deferred)) == expected
        again.close()
