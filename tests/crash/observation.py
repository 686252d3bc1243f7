"""What a broker finds on a disk, by the real recovery and delivery, and whether it is what was promised."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from nsqlake.nsqd.core.channel import Channel, ChannelLimits
from nsqlake.nsqd.core.subscription import Subscription
from nsqlake.nsqd.data_store import DataStore
from nsqlake.nsqd.topic_loader import LoadedTopic, TopicLoader
from nsqlake.topiclog import EPOCH_JUMP, LogOptions
from nsqlake.wire.frame_reader import FrameReader
from tests.crash.promises import Block, Bodies, ChannelLife, Promises, TopicLife
from tests.crash.sim_broker import DATA_PATH, NOW_NS, OPTIONS, SECOND_NS
from tests.fakes.sim_files import Image, Op, SimFiles
from tests.topiclog.support import drain, framed

PROBE = b"probe"
_PROBE_CHANNEL = "probe"
_AGES_NS = 100_000 * SECOND_NS
_LIMITS = ChannelLimits(max_msg_timeout_ns=900 * SECOND_NS, ephemeral_depth=10)
_LOG_OPTIONS = LogOptions(max_bytes_per_file=OPTIONS.max_bytes_per_file, mem_messages=0)


@dataclass
class FoundTopic:
    """One topic after recovery."""

    uuid: bytes
    next: int
    is_unclean: bool
    messages: Bodies
    probe_at: int
    channels: dict[str, Bodies] = field(default_factory=dict)  # what each delivers, in the end
    early: dict[str, set[int]] = field(default_factory=dict)  # what each delivers at once

    @property
    def had_channels(self) -> bool:
        return _PROBE_CHANNEL not in self.channels


@dataclass
class Found:
    topics: dict[str, FoundTopic]
    new_topics_from: int  # the offset at which a new topic would begin
    trace: list[Op]  # what recovery did to the disk


def recover(files: SimFiles) -> tuple[DataStore, list[LoadedTopic]]:
    """Start as the daemon does, up to where it would listen."""
    data = DataStore(files, DATA_PATH)
    loader = TopicLoader(data, _LOG_OPTIONS, id_base=0, limits=_LIMITS, random=lambda: 0.5)
    clean, names = data.open()
    data.mark_start()
    return data, [loader.load(name, NOW_NS, clean=clean) for name in names]


def observe(image: Image) -> Found:
    """Recover from `image`, publish one more message to every topic, and let every channel deliver all."""
    files = SimFiles(image)
    data, loaded = recover(files)
    trace = list(files.trace)
    topics = {topic.core.name: _observe_topic(topic) for topic in loaded}
    return Found(topics, data.first_offset(NOW_NS), trace)


def _observe_topic(loaded: LoadedTopic) -> FoundTopic:
    log, core = loaded.log, loaded.core
    messages = dict(drain(log))
    next_ = log.next
    probe_at = core.publish(**framed([PROBE]), timestamp_ns=NOW_NS)
    found = FoundTopic(log.uuid, next_, loaded.report.is_unclean, messages, probe_at)
    core.unpause(NOW_NS)
    if not core.channels:
        core.add_channel(_PROBE_CHANNEL, NOW_NS)
    for name, channel in core.channels.items():
        channel.is_paused = False
        sub = Subscription(None, msg_timeout_ns=900 * SECOND_NS)
        assert channel.subscribe(sub)
        channel.set_ready(sub, 2500)
        channel.expire(NOW_NS)
        at_once = _deliver(channel, NOW_NS)
        channel.ledger.mature(NOW_NS + _AGES_NS)
        found.early[name] = set(at_once)
        found.channels[name] = at_once | _deliver(channel, NOW_NS)
    assert drain(log, probe_at) == [(probe_at, PROBE)]
    log.close()
    return found


def _deliver(channel: Channel, now_ns: int) -> Bodies:
    delivered: Bodies = {}
    while channel.can_deliver:
        frames = [frame for _, frames in channel.pump(now_ns) for frame in frames]
        for frame in FrameReader().feed(b"".join(frames)):
            offset = int(frame.payload[10:26], 16)
            assert offset not in delivered, f"{offset} twice"
            delivered[offset] = frame.payload[26:]
        if not frames:
            break
    return delivered


def check(found: Found, promises: Promises, when: int) -> None:
    """Assert that all that was promised before `when` is there, and nothing that nobody wrote."""
    for life in promises.topics:
        if life.must_exist(when):
            assert life.name in found.topics, f"topic {life.name} lost"
        if life.name not in found.topics:
            assert found.new_topics_from >= life.used_below(when), (
                f"offsets of {life.name} are given out again"
            )
    for name, topic in found.topics.items():
        lives = [life for life in promises.topics if life.name == name]
        _check_offsets(topic, lives, when)
        possible = [life for life in lives if life.may_exist(when)]
        assert possible, f"topic {name} came back"
        _check_messages(topic, possible, when)
        for life in possible:
            if life.must_exist(when):
                _check_life(topic, life, when)


def _check_offsets(topic: FoundTopic, lives: Iterable[TopicLife], when: int) -> None:
    used = max(life.used_below(when) for life in lives)
    assert topic.next >= used, f"offsets from {topic.next} on are given out again, up to {used}"
    assert topic.probe_at >= topic.next
    # The jump is for what was not synced; what was has to be known without it.
    synced = max(life.synced_below(when) for life in lives)
    jump = EPOCH_JUMP if topic.is_unclean else 0
    assert topic.next >= synced + jump, f"next {topic.next} is not {jump} above {synced}, which was synced"


def _check_messages(topic: FoundTopic, lives: list[TopicLife], when: int) -> None:
    known: Bodies = {}
    for life in lives:
        known |= life.known(when)
        for group in life.groups(when):
            assert not group & topic.messages.keys() or group <= topic.messages.keys(), "part of a block"
    known[topic.probe_at] = PROBE
    for where, messages in (("the log", topic.messages), *topic.channels.items()):
        unknown = {at for at, body in messages.items() if known.get(at) != body}
        assert not unknown, f"{where} has what nobody wrote: {sorted(unknown)}"
    for name, delivered in topic.channels.items():
        assert topic.probe_at in delivered, f"channel {name} stands still"


def _check_life(topic: FoundTopic, life: TopicLife, when: int) -> None:
    assert life.uuid in (b"", topic.uuid), "another log"
    lost = life.promised(when) - topic.messages.keys()
    assert not lost, f"lost from the log: {sorted(lost)}"
    must, may = life.channels_at(when)
    for channel in must:
        assert channel.name in topic.channels, f"channel {channel.name} lost"
        _check_channel(topic, life, channel, when)
    if topic.had_channels:
        extra = topic.channels.keys() - {channel.name for channel in may}
        assert not extra, f"channels came back: {extra}"
    elif not any(channel.begun < when for channel in life.channels):
        lost = life.promised(when) - topic.channels[_PROBE_CHANNEL].keys()
        assert not lost, f"not for the first channel: {sorted(lost)}"
    for name, early in topic.early.items():
        due = {at for at, due_ns in life.due(when).items() if due_ns > NOW_NS} - {topic.probe_at}
        too_early = due & early
        assert not too_early, f"channel {name} delivers before the time: {sorted(too_early)}"


def _check_channel(topic: FoundTopic, life: TopicLife, channel: ChannelLife, when: int) -> None:
    delivered = topic.channels[channel.name].keys()
    lost = life.owed(channel, when) - delivered
    assert not lost, f"channel {channel.name} lost {sorted(lost)}"
    again = {at for at, settled in channel.settled.items() if settled <= when} & delivered
    assert not again, f"channel {channel.name} delivers again, finished for good: {sorted(again)}"


def carried_over(promises: Promises, found: Found, when: int) -> Promises:
    """What is to be expected of a broker that goes on with what was found after a power loss."""
    carried = Promises()
    for life in promises.topics:
        if life.begun >= when:
            continue
        used = life.used_below(when)
        topic = found.topics.get(life.name) if life.may_exist(when) else None
        if topic is None:
            carried.topics.append(TopicLife(life.name, -1, leaving=-1, gone=-1, used=used))
        else:
            carried.topics.append(_carried_topic(life, topic, when, used))
    return carried


def _carried_topic(life: TopicLife, topic: FoundTopic, when: int, used: int) -> TopicLife:
    # Before it was made it may have had no identity yet: then every start draws another.
    uuid = topic.uuid if life.made <= when else b""
    carried = TopicLife(life.name, -1, made=0, uuid=uuid, used=used)
    for block in life.blocks:
        if block.begun < when and block.messages.keys() <= topic.messages.keys():
            carried.blocks.append(Block(block.base, block.bodies, block.due_ns, -1, 0))
    carried.synced.append((0, max(topic.messages, default=-1) + 1))
    for name, delivered in topic.channels.items():
        finished = dict.fromkeys(topic.messages.keys() - delivered.keys(), -1)
        if topic.had_channels:
            carried.channels.append(ChannelLife(name, -1, made=0, dropped=finished, settled=dict(finished)))
        else:
            carried.dropped.update(finished)
    return carried
