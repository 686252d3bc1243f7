"""Which channel is woken when."""

from concurrent.futures import ThreadPoolExecutor

from hypothesis import given
from hypothesis import strategies as st

from nsqlake.nsqd.alarms import Alarms
from nsqlake.nsqd.live_topic import LiveChannel, LiveTopic
from tests.nsqd.core.support import NOW_NS, new_topic


def new_channel(name: str = "c", wakeup_ns: int | None = None) -> LiveChannel:
    topic = new_topic()
    live = LiveTopic(topic, ThreadPoolExecutor(1), on_synced=lambda _topic, _error: None)
    channel = LiveChannel(topic.add_channel(name, NOW_NS), live, None)
    channel.core._wakeup_ns = wakeup_ns
    return channel


def test_channels_come_in_order_of_their_times() -> None:
    alarms = Alarms()
    channels = [new_channel(wakeup_ns=when_ns) for when_ns in (30, 10, 20)]
    for channel in channels:
        assert alarms.update(channel)

    assert alarms.next_ns == 10
    assert alarms.pop_due(9) == []
    assert alarms.pop_due(20) == [channels[1], channels[2]]
    assert alarms.next_ns == 30


def test_channel_without_a_time_has_no_alarm() -> None:
    alarms = Alarms()

    assert not alarms.update(new_channel())

    assert alarms.next_ns is None
    assert alarms.pop_due(10**20) == []


def test_only_a_sooner_time_replaces_an_alarm() -> None:
    alarms = Alarms()
    channel = new_channel(wakeup_ns=20)
    alarms.update(channel)
    channel.core._wakeup_ns = 30
    assert not alarms.update(channel)
    assert alarms.next_ns == 20

    channel.core._wakeup_ns = 10
    assert alarms.update(channel)

    assert alarms.pop_due(15) == [channel]
    assert alarms.next_ns is None


def test_channel_is_woken_once_although_it_was_entered_twice() -> None:
    alarms = Alarms()
    channel = new_channel(wakeup_ns=20)
    alarms.update(channel)
    channel.core._wakeup_ns = 10
    alarms.update(channel)
    assert alarms.pop_due(10) == [channel]
    channel.core._wakeup_ns = 20
    alarms.update(channel)

    assert alarms.pop_due(25) == [channel]


def test_closed_channel_is_not_woken() -> None:
    alarms = Alarms()
    channel = new_channel(wakeup_ns=10)
    alarms.update(channel)

    channel.core.is_closed = True

    assert alarms.pop_due(10) == []


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 50), st.booleans()), max_size=40))
def test_no_channel_sleeps_beyond_its_time(steps: list[tuple[int, int, bool]]) -> None:
    alarms, now_ns = Alarms(), 0
    channels = [new_channel() for _ in range(4)]

    for which, delay_ns, passes in steps:
        if passes:
            now_ns += delay_ns
            for woken in alarms.pop_due(now_ns):
                woken.core._wakeup_ns = None
        else:
            core = channels[which].core
            core._wakeup_ns = min(now_ns + delay_ns, core._wakeup_ns or 10**9)
            alarms.update(channels[which])

        assert all(c.core._wakeup_ns is None or c.core._wakeup_ns > now_ns for c in channels)
