"""Topics, channels, journals and state files against a model that keeps every message by itself.

`NSQLAKE_STEPS=100000 pytest tests/nsqd/core/test_broker_against_model.py` runs that many steps.
"""

import os
import random
import shutil
import tempfile

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from nsqlake.nsqd.core.channel import Channel, Outcome
from nsqlake.nsqd.core.peeking import MessageState, peek_channel
from nsqlake.nsqd.core.seeking import SeekTarget, resolve
from nsqlake.nsqd.core.subscription import Subscription
from nsqlake.topiclog import LogOptions
from tests.nsqd.core.harness import (
    ID_BASE,
    MAX_MSG_TIMEOUT_NS,
    SECOND_NS,
    START_NS,
    DiskTopic,
    fin_lines,
    id_of,
    parse,
)
from tests.nsqd.core.model import ModelChannel, ModelTopic, Where
from tests.topiclog.support import append_bytes, framed, truncate_by

STEPS = int(os.environ.get("NSQLAKE_STEPS", "4000"))
STEPS_PER_RUN = 50

NAMES = st.sampled_from(["a", "b.c"])
PICK = st.integers(0, 2**16)
BODIES = st.lists(st.binary(min_size=1, max_size=30), min_size=1, max_size=8)
WRITES = st.booleans()
CRASHES = st.sampled_from(["torn block", "torn journal", "torn snapshot", "cut log"])
DELAYS_NS = st.sampled_from([1, SECOND_NS, 5 * SECOND_NS, 40 * SECOND_NS])
_STATES = {
    Where.QUEUED: {MessageState.FRESH, MessageState.REQUEUED},
    Where.OUT: {MessageState.OUT},
    Where.DEFERRED: {MessageState.DEFERRED},
}


class BrokerAgainstModel(RuleBasedStateMachine):
    @initialize(memory=st.sampled_from([0, 5, 1000]), file_bytes=st.sampled_from([200, 1500, 10**6]))
    def begin(self, memory: int, file_bytes: int) -> None:
        self.root = tempfile.mkdtemp()
        options = LogOptions(max_bytes_per_file=file_bytes, mem_messages=memory)
        self.disk = DiskTopic(self.root, log_options=options)
        self.now_ns = START_NS
        self.disk.open(self.now_ns)
        self.model = ModelTopic()
        self.subs: dict[str, dict[str, Subscription]] = {}
        self.sub_number = 0
        self.stamps: dict[int, int] = {}
        self.retired: set[int] = set()

    def teardown(self) -> None:
        if not hasattr(self, "root"):
            return
        self.every_message_can_still_be_had()
        self.disk.kill()
        shutil.rmtree(self.root)

    # Publishing

    def _publish(self, bodies: list[bytes], due_ns: int = 0) -> None:
        if len(bodies) == 1 and not due_ns:
            base = self.disk.log.next
            self.disk.core.publish_one(framed(bodies)["records"], self.now_ns)
        else:
            base = self.disk.core.publish(**framed(bodies), timestamp_ns=self.now_ns, due_ns=due_ns)
        self.model.publish(base, bodies, due_ns)
        self.stamps.update(dict.fromkeys(range(base, base + len(bodies)), self.now_ns))
        for name in self.model.channels:
            self._write_if_urgent(name)

    @rule(body=st.binary(min_size=1, max_size=30), hands_over=st.booleans())
    def pub(self, body: bytes, hands_over: bool) -> None:
        self._publish([body])
        for name, channel in self.disk.core.channels.items() if hands_over else ():
            handed = channel.hand_over(self.now_ns)
            if handed is not None:
                assert self._receive(name, handed[0], [handed[1]]) == 1

    @rule(count=st.integers(1, 40))
    def mpub_equal(self, count: int) -> None:
        self._publish([b"%08d" % number for number in range(count)])

    @rule(bodies=BODIES)
    def mpub_mixed(self, bodies: list[bytes]) -> None:
        self._publish(bodies)

    @rule(bodies=BODIES, delay_ns=DELAYS_NS)
    def dpub(self, bodies: list[bytes], delay_ns: int) -> None:
        self._publish(bodies, self.now_ns + delay_ns)

    # Channels and consumers

    @rule(name=NAMES)
    def create_channel(self, name: str) -> None:
        if name in self.model.channels:
            return
        self.disk.add_channel(name, self.now_ns)
        self.model.add_channel(name)
        self.subs[name] = {}

    def _subscribe(self, name: str, timeout_s: int, ready: int) -> Subscription:
        self.sub_number += 1
        key = f"s{self.sub_number}"
        sub = self.subs[name][key] = Subscription(key, msg_timeout_ns=timeout_s * SECOND_NS)
        channel = self.disk.core.channels[name]
        assert channel.subscribe(sub)
        channel.set_ready(sub, ready)
        return sub

    @rule(pick=PICK, count=st.sampled_from([0, 1, 3, 20, 2500]))
    def ready(self, pick: int, count: int) -> None:
        _, channel, _, sub = self._pick_sub(pick)
        channel.set_ready(sub, count)

    @rule(pick=PICK)
    def disconnect(self, pick: int) -> None:
        name, channel, model, sub = self._pick_sub(pick)
        channel.unsubscribe(sub)
        del self.subs[name][str(sub.key)]
        for offset in model.among(Where.OUT, str(sub.key)):
            model.put_back(offset)
        self._write_if_urgent(name)

    @rule(pick=PICK, is_writable=st.booleans())
    def stall(self, pick: int, is_writable: bool) -> None:
        _, channel, _, sub = self._pick_sub(pick)
        sub.is_writable = is_writable
        channel.offer(sub)

    # Delivery

    @rule(pick=PICK)
    def pump(self, pick: int) -> None:
        self._pump(self._pick_sub(pick)[0])

    @rule(pick=PICK)
    def pump_until_quiet(self, pick: int) -> None:
        name, channel, model, _ = self._pick_sub(pick)
        for _ in range(200):
            if not channel.can_deliver:
                break
            self._pump(name)
        assert not channel.can_deliver
        has_room = any(sub.room > 0 for sub in self.subs[name].values())
        assert channel.is_paused or not has_room or not model.among(Where.QUEUED)

    def _pump(self, name: str) -> int:
        channel = self.disk.core.channels[name]
        delivered = sum(self._receive(name, sub, frames) for sub, frames in channel.pump(self.now_ns))
        self._write_if_urgent(name)
        return delivered

    def _receive(self, name: str, sub: Subscription, frames: list[bytes | memoryview]) -> int:
        model = self.model.channels[name]
        messages = parse(frames)
        assert messages
        assert sub.in_flight <= sub.ready
        assert sub.is_writable
        for message in messages:
            attempts = model.deliver(message.offset, str(sub.key), self.now_ns, sub.msg_timeout_ns)
            assert (message.attempts, message.body) == (attempts, self.model.bodies[message.offset])
            assert message.timestamp_ns == self.stamps[message.offset]
        return len(messages)

    @rule(pick=PICK)
    def finish_the_only_one_and_take_the_next(self, pick: int) -> None:
        name, channel, model, sub, held = self._pick_holder(pick)
        if len(held) != 1:
            return
        assert channel.finish(sub, id_of(held[0])) is Outcome.DONE
        del model.entries[held[0]]

        frame = channel.refill(sub, self.now_ns)

        if frame is not None:
            self._receive(name, sub, [frame])
        self._write_if_urgent(name)

    @rule(pick=PICK)
    def fin_of_what_was_handed_out_last(self, pick: int) -> None:
        """As a consumer with RDY 1 sends it, in time or too late or once more."""
        name, channel, model, sub, _ = self._pick_holder(pick)
        if not sub.only_fin:
            return
        offset = int(sub.only_fin[4:20], 16) - ID_BASE
        is_held = offset in model.among(Where.OUT, str(sub.key))

        frame = channel.swap(sub, self.now_ns)

        is_done = frame is not None or channel.finish(sub, sub.only_fin[4:20]) is Outcome.DONE
        assert is_done == is_held
        if is_held:
            del model.entries[offset]
        if frame is not None:
            self._receive(name, sub, [frame])

    # FIN, REQ, TOUCH

    @rule(pick=PICK, skip=st.integers(0, 5), count=st.integers(1, 60), seed=st.none() | PICK, writes=WRITES)
    def fin(self, pick: int, skip: int, count: int, seed: int | None, writes: bool) -> None:
        name, channel, model, sub, held = self._pick_holder(pick)
        offsets = held[skip : skip + count]
        if not offsets:
            return
        if seed is not None:
            random.Random(seed).shuffle(offsets)

        assert channel.finish_run(sub, fin_lines(offsets))
        for offset in offsets:
            del model.entries[offset]
        if writes:
            self._write(name)

    @rule(pick=PICK, count=st.integers(0, 10), stranger=PICK)
    def fin_of_a_run_with_a_message_that_is_not_held(self, pick: int, count: int, stranger: int) -> None:
        _, channel, _, sub, held = self._pick_holder(pick)
        others = [offset for offset in self.model.bodies if offset not in held]
        strangers = [*others, *held[:1], max([*others, *held, 0]) + 1]
        run = [*held[:count], strangers[stranger % len(strangers)]]
        if len(set(run)) == 1 and run[0] in held:
            return

        assert not channel.finish_run(sub, fin_lines(run))

    @rule(pick=PICK, stranger=PICK, command=st.sampled_from(["fin", "req", "touch"]))
    def command_for_a_message_that_is_not_held(self, pick: int, stranger: int, command: str) -> None:
        _, channel, model, sub, _ = self._pick_holder(pick)
        offset = [*self.model.bodies, 17][stranger % (len(self.model.bodies) + 1)]
        entry = model.entries.get(offset)
        if entry is not None and entry.owner == sub.key:
            return
        is_out = entry is not None and entry.where is Where.OUT

        outcome = {
            "fin": lambda: channel.finish(sub, id_of(offset)),
            "req": lambda: channel.requeue(sub, id_of(offset), 0, self.now_ns),
            "touch": lambda: channel.touch(sub, id_of(offset), self.now_ns),
        }[command]()

        assert outcome is (Outcome.NOT_OWNER if is_out else Outcome.NOT_IN_FLIGHT)

    @rule(pick=PICK, which=PICK, delay_ns=st.just(0) | DELAYS_NS)
    def req(self, pick: int, which: int, delay_ns: int) -> None:
        name, channel, model, sub, held = self._pick_holder(pick)
        if not held:
            return
        offset = held[which % len(held)]

        assert channel.requeue(sub, id_of(offset), delay_ns, self.now_ns) is Outcome.DONE
        model.put_back(offset, self.now_ns + delay_ns if delay_ns else 0)
        model.requeues += 1
        self._write_if_urgent(name)

    @rule(pick=PICK, which=PICK)
    def touch(self, pick: int, which: int) -> None:
        _, channel, model, sub, held = self._pick_holder(pick)
        if not held:
            return
        offset = held[which % len(held)]

        assert channel.touch(sub, id_of(offset), self.now_ns) is Outcome.DONE
        model.touch(offset, self.now_ns, sub.msg_timeout_ns, MAX_MSG_TIMEOUT_NS)

    # Time

    @rule(elapsed_ns=st.sampled_from([1, SECOND_NS // 2, SECOND_NS, 3 * SECOND_NS, 30 * SECOND_NS]))
    def time_passes(self, elapsed_ns: int) -> None:
        self.now_ns += elapsed_ns
        self._ring_alarms()

    @rule()
    def time_passes_until_something_is_due(self) -> None:
        times = [channel.next_event_ns() for channel in self.model.channels.values()]
        self.now_ns = max(self.now_ns, min((time_ns for time_ns in times if time_ns), default=0))
        self._ring_alarms()

    def _ring_alarms(self) -> None:
        for name, channel in self.disk.core.channels.items():
            wakeup_ns = channel.next_wakeup_ns
            if wakeup_ns is not None and wakeup_ns <= self.now_ns:
                channel.expire(self.now_ns)
            self.model.channels[name].expire(self.now_ns)
            self._write_if_urgent(name)

    # Administration

    @rule(paused=st.booleans(), pick=PICK)
    def pause_channel(self, paused: bool, pick: int) -> None:
        _, channel, model = self._pick_channel(pick)
        channel.is_paused = model.is_paused = paused
        self.disk.save_state()

    @rule()
    def pause_topic(self) -> None:
        self.disk.core.pause()
        self.model.is_paused = True
        self.disk.save_state()

    @rule()
    def unpause_topic(self) -> None:
        self._unpause_topic()
        self.disk.save_state()

    def _unpause_topic(self) -> None:
        self.disk.core.unpause(self.now_ns)
        self.model.is_paused = False
        self.model.flow()
        for name in self.model.channels:
            self._write_if_urgent(name)

    @rule()
    def empty_topic(self) -> None:
        self.disk.core.empty()
        self.disk.save_state()
        self.model.empty()

    @rule(pick=PICK, deletes=st.booleans())
    def empty_or_delete_channel(self, pick: int, deletes: bool) -> None:
        name, channel, model = self._pick_channel(pick)
        if deletes:
            self.disk.remove_channel(name)
            del self.model.channels[name], self.subs[name]
        else:
            channel.empty()
            model.entries.clear()
            self._write(name)

    # Positions

    @rule(pick=PICK, where=PICK)
    def seek(self, pick: int, where: int) -> None:
        name, channel, model = self._pick_channel(pick)
        offset = self._pick_offset(where)

        channel.seek(offset, self.now_ns)

        model.seek(offset, [at for at in self.model.flowed() if self._is_kept(at)], self.now_ns)
        for sub in channel.subscriptions:
            assert sub.in_flight == 0
        self._write(name)

    @rule(where=PICK)
    def seek_to_a_time(self, where: int) -> None:
        kept = [at for at in sorted(self.model.bodies) if at >= self.disk.log.first and self._is_kept(at)]
        if not kept:
            return
        log, time_ns = self.disk.log, self.stamps[kept[where % len(kept)]]

        offset = resolve(SeekTarget.at_time(time_ns), log, self.disk.core.origin)

        span = log.read(offset)
        assert span is not None
        assert max(offset, span.base) == next(at for at in kept if self.stamps[at] >= time_ns)

    @rule(pick=PICK, where=PICK, writes=WRITES)
    def commit(self, pick: int, where: int, writes: bool) -> None:
        name, channel, model = self._pick_channel(pick)
        offset, before = self._pick_offset(where), channel.ledger.cursor

        assert channel.commit(offset) == channel.ledger.cursor == max(before, offset)

        model.commit(offset)
        if writes:
            self._write(name)

    @rule(pick=PICK, which=PICK, cancels_all=st.booleans())
    def cancel_deferred(self, pick: int, which: int, cancels_all: bool) -> None:
        name, channel, model = self._pick_channel(pick)
        deferred = model.among(Where.DEFERRED)
        chosen = deferred if cancels_all else deferred[which % (len(deferred) + 1) :][:1]
        stranger = self._pick_offset(which) if not chosen else -1
        if stranger in deferred:
            return

        only = None if cancels_all else [*chosen, stranger][0]
        assert channel.ledger.cancel_deferred(only) == len(chosen)

        for offset in chosen:
            del model.entries[offset]
        self._write(name)

    @rule(pick=PICK, where=PICK, count=st.integers(1, 50))
    def peek(self, pick: int, where: int, count: int) -> None:
        _, channel, model = self._pick_channel(pick)
        core, offset = self.disk.core, self._pick_offset(where)

        seen = peek_channel(core.backlog, channel.ledger, offset, count=count, max_bytes=10**6)

        expected = [at for at in sorted(self.model.flowed()) if at >= offset and self._is_kept(at)][:count]
        assert [(message.offset, message.body) for message in seen] == [
            (at, self.model.bodies[at]) for at in expected
        ]
        for message in seen:
            entry = model.entries.get(message.offset)
            assert message.state in (_STATES[entry.where] if entry else {MessageState.FINISHED})
            assert entry is None or message.attempts == entry.attempts

    def _pick_offset(self, pick: int) -> int:
        """Somewhere in the log, at its ends too, and in the middle of blocks and gaps."""
        first, next_ = self.disk.log.first, self.disk.log.next
        known = [at for at in sorted(self.model.bodies) if first <= at <= next_]
        return [first, next_, *known][pick % (len(known) + 2)]

    # Storage

    @rule()
    def retire(self) -> None:
        self.disk.core.trim()
        self.disk.core.retire()

        self.retired = {offset for offset in self.model.bodies if not self._is_kept(offset)}
        assert not self.retired & self.model.live()

    def _is_kept(self, offset: int) -> bool:
        return self.disk.log.count(offset, offset + 1) == 1

    @rule(pick=PICK, syncs=st.booleans(), rotates=st.booleans())
    def write_journal(self, pick: int, syncs: bool, rotates: bool) -> None:
        name, channel, model = self._pick_channel(pick)
        if rotates:
            assert self.disk.journal(name).write_snapshot(channel.ledger)
            model.write()
        else:
            self._write(name)
        if syncs:
            self.disk.sync_journal(name)

    @rule()
    def restart(self) -> None:
        for model in self.model.channels.values():
            model.write()
        self.disk.stop()
        self._reopen()

    @rule(how=CRASHES, nbytes=st.integers(1, 150), pick=PICK)
    def crash(self, how: str, nbytes: int, pick: int) -> None:
        name, _, model = self._pick_channel(pick)
        if how == "torn snapshot":
            self.write_journal(pick, syncs=False, rotates=True)
        self.disk.kill()
        tail = self.disk.log_tail()
        is_journal_torn = how in ("torn journal", "torn snapshot") and len(model.written) == 2
        if is_journal_torn:
            truncate_by(self.disk.journal_paths(name)[-1], nbytes % 8 + 1)
        elif how == "torn block" and tail:
            append_bytes(tail, random.Random(nbytes).randbytes(nbytes))
        elif how == "cut log" and tail:
            truncate_by(tail, nbytes)
        self._reopen(torn=name if is_journal_torn else "", may_lose=how == "cut log")

    def _reopen(self, *, torn: str = "", may_lose: bool = False) -> None:
        self.disk.open(self.now_ns)
        for name, model in self.model.channels.items():
            model.restart(2 if name == torn else 1)
            self.subs[name] = {}
        lost = {offset for offset in self.model.live() if not self._is_kept(offset)}
        # What was finished comes again if no journal says so, unless storage has let go of it since.
        assert may_lose or lost <= self.retired
        self.model.lose(lost)
        assert set(self.disk.core.channels) == set(self.model.channels)
        self._ring_alarms()

    # What must always hold

    @invariant()
    def counts_agree(self) -> None:
        if not hasattr(self, "model"):
            return
        assert self.disk.core.depth == len(self.model.waiting)
        assert self.disk.core.is_paused == self.model.is_paused
        for name, model in self.model.channels.items():
            channel = self.disk.core.channels[name]
            assert channel.depth == len(model.among(Where.QUEUED))
            assert channel.ledger.out.count == len(model.among(Where.OUT))
            assert len(channel.ledger.deferred) == len(model.among(Where.DEFERRED))
            assert 0 <= channel.backend_depth <= channel.depth
            assert channel.is_paused == model.is_paused
            assert channel.message_count == model.count
            assert (channel.timeout_count, channel.requeue_count) == (model.timeouts, model.requeues)

    @invariant()
    def consumers_agree(self) -> None:
        for name, subs in getattr(self, "subs", {}).items():
            for key, sub in subs.items():
                assert sub.in_flight == len(self.model.channels[name].among(Where.OUT, key))

    @invariant()
    def alarms_are_early_enough(self) -> None:
        if not hasattr(self, "model"):
            return
        for name, model in self.model.channels.items():
            event_ns = model.next_event_ns()
            wakeup_ns = self.disk.core.channels[name].next_wakeup_ns
            assert event_ns is None or (wakeup_ns is not None and wakeup_ns <= max(event_ns, self.now_ns))

    def every_message_can_still_be_had(self) -> None:
        """Wait long enough, and everything that is not finished comes, once, with its own body."""
        self._unpause_topic()
        self.now_ns += 3600 * SECOND_NS
        self._ring_alarms()
        for name, model in self.model.channels.items():
            channel = self.disk.core.channels[name]
            channel.is_paused = False
            sub = Subscription("last", msg_timeout_ns=SECOND_NS)
            assert channel.subscribe(sub)
            channel.set_ready(sub, 10**6)
            while self._pump(name):
                pass
            assert not model.among(Where.QUEUED)
            assert not model.among(Where.DEFERRED)

    # Picking: whatever a rule needs and is not there is made, so that every step counts

    def _pick_channel(self, pick: int) -> tuple[str, Channel, ModelChannel]:
        if not self.model.channels:
            self.create_channel("a")
        names = sorted(self.model.channels)
        name = names[pick % len(names)]
        return name, self.disk.core.channels[name], self.model.channels[name]

    def _pick_sub(self, pick: int) -> tuple[str, Channel, ModelChannel, Subscription]:
        name, channel, model = self._pick_channel(pick)
        subs = list(self.subs[name].values())
        which = pick // 7 % (len(subs) + 1)
        if which < len(subs):
            return name, channel, model, subs[which]
        sub = self._subscribe(name, (2, 10)[pick % 2], (1, 5, 2500)[pick % 3])
        return name, channel, model, sub

    def _pick_holder(self, pick: int) -> tuple[str, Channel, ModelChannel, Subscription, list[int]]:
        """A consumer and what it holds, which is nothing only if the channel is not to deliver."""
        name, channel, model, sub = self._pick_sub(pick)
        if not model.among(Where.OUT, str(sub.key)):
            if not model.among(Where.QUEUED):
                self._publish([b"made for %d" % pick] * (pick % 30 + 1))
            self._pump(name)
        return name, channel, model, sub, model.among(Where.OUT, str(sub.key))

    def _write_if_urgent(self, name: str) -> None:
        if self.disk.core.channels[name].ledger.pending.is_urgent:
            self._write(name)

    def _write(self, name: str) -> None:
        if self.disk.write_journal(name):
            self.model.channels[name].write()


TestBrokerAgainstModel = BrokerAgainstModel.TestCase
TestBrokerAgainstModel.settings = settings(
    max_examples=max(1, STEPS // STEPS_PER_RUN),
    stateful_step_count=STEPS_PER_RUN,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
