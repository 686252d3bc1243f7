"""What the metrics need beside a snapshot."""

from pathlib import Path

from nsqlake.nsqd.stats.observation import LogTotals, count_connections, sum_logs
from nsqlake.testing.nsqd import NsqdFixture, running_nsqd
from nsqlake.topiclog.damage import Damage
from nsqlake.topiclog.recovery import RecoveryReport
from tests.nsqd.stats.conftest import Connect


def test_connections_are_counted_by_what_they_do(connect: Connect) -> None:
    with running_nsqd() as nsqd:
        consumer, producer, idle = connect(nsqd), connect(nsqd), connect(nsqd)
        consumer.sub("t", "c")
        consumer.pub("t", b"x")
        producer.pub("t", b"x")
        idle.identify()

        found = nsqd.call(lambda daemon: count_connections(list(daemon.connections), {False: 2, True: 3}))

    assert found == {
        ("consumer", False): 1,
        ("consumer", True): 0,
        ("producer", False): 1,
        ("producer", True): 0,
        ("idle", False): 1,
        ("idle", True): 0,
        ("http", False): 2,
        ("http", True): 3,
    }


def test_logs_are_summed_with_what_their_opening_found(connect: Connect, tmp_path: Path) -> None:
    with running_nsqd(data_path=str(tmp_path)) as nsqd:
        connect(nsqd).pub("t", b"x" * 1000)
        connect(nsqd).pub("t#ephemeral", b"x" * 1000)

        totals = nsqd.call(lambda daemon: _with_losses(nsqd))

    assert totals.memory_bytes >= 1000
    assert (totals.lost_messages, totals.torn_blocks) == (3 + 5, 2)


def _with_losses(nsqd: NsqdFixture) -> LogTotals:
    topics = nsqd.daemon.broker.topics
    damage = Damage("segment", 0, 100, "bad checksum", messages=3)
    topics["t"].recovered = RecoveryReport(torn_blocks=2, damage=[damage], missing=[(10, 15)])
    return sum_logs(topics.values())
