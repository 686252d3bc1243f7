"""A log and a plain list are given the same operations, crashes and damage included."""

import os
import random
import shutil
import tempfile

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from nsqlake.topiclog import EPOCH_JUMP, TopicLog
from tests.topiclog.support import (
    FIRST,
    Message,
    append,
    append_bytes,
    crash,
    drain,
    flip_bit,
    index_paths,
    open_log,
    segment_paths,
    sync,
    truncate_by,
)

BODIES = st.lists(st.binary(min_size=1, max_size=40), min_size=1, max_size=6)


class LogAgainstList(RuleBasedStateMachine):
    """`blocks` is the model: what was appended and not retired, block by block."""

    @initialize(memory=st.sampled_from([0, 3, 1000]), file_bytes=st.sampled_from([200, 1500, 10**6]))
    def open(self, memory: int, file_bytes: int) -> None:
        self.root = tempfile.mkdtemp()
        self.path = os.path.join(self.root, "log")
        self.options = {"mem_messages": memory, "max_bytes_per_file": file_bytes}
        self.log: TopicLog = open_log(self.path, **self.options)[0]
        self.blocks: list[list[Message]] = []
        self.due: list[tuple[int, int, int]] = []
        self.used = FIRST  # the lowest offset that was never given out
        self.cut = 0  # messages that were cut off; reported again when the index that knows it is lost

    def teardown(self) -> None:
        if hasattr(self, "log"):
            crash(self.log)
            shutil.rmtree(self.root)

    @property
    def messages(self) -> list[Message]:
        return [message for block in self.blocks for message in block]

    @rule(bodies=BODIES, due_ns=st.sampled_from([0, 0, 0, 50, 60]), tag=st.sampled_from([b"", b"", b"tag"]))
    def append_block(self, bodies: list[bytes], due_ns: int, tag: bytes = b"") -> None:
        base = append(self.log, bodies, due_ns=due_ns, tag=tag)

        assert base >= self.used
        self.used = base + len(bodies)
        self.blocks.append([(base + i, body) for i, body in enumerate(bodies)])
        if due_ns:
            self.due.append((base, len(bodies), due_ns))

    @rule(count=st.integers(1, 30), sizes=st.sampled_from([(5, 5), (1, 9)]))
    def append_single_messages(self, count: int, sizes: tuple[int, int]) -> None:
        for i in range(count):
            self.append_block([b"s" * sizes[i % 2]], 0)

    @rule()
    def sync(self) -> None:
        sync(self.log)

        assert self.log.synced == self.log.next
        assert self.log.dirty_messages == 0

    @rule()
    def reopen_cleanly(self) -> None:
        next_ = self.log.next
        self.log.close()
        self.log, report = open_log(self.path, clean=True, **self.options)

        assert (report.torn_blocks, report.damage) == (0, [])
        assert report.lost_messages <= self.cut
        assert self.log.next == next_

    @rule(torn=st.binary(max_size=120))
    def reopen_after_a_crash_with_a_torn_write(self, torn: bytes) -> None:
        crash(self.log)
        segments = segment_paths(self.path)
        if segments:
            append_bytes(segments[-1], torn)
        self.log, report = open_log(self.path, clean=False, **self.options)

        assert report.lost_messages <= self.cut
        assert self.log.next >= self.used + EPOCH_JUMP or not segments
        self.used = self.log.next

    @rule(nbytes=st.integers(1, 400))
    def reopen_after_a_crash_with_a_cut_tail(self, nbytes: int) -> None:
        crash(self.log)
        segments = segment_paths(self.path)
        if segments:
            truncate_by(segments[-1], nbytes)
        self.log, _report = open_log(self.path, clean=False, **self.options)

        left = drain(self.log)
        assert left == self.messages[: len(left)]
        self.cut += len(self.messages) - len(left)
        self._keep_only(left)
        self.used = max(self.used, self.log.next)

    @rule(number=st.integers(0, 50))
    def lose_an_index(self, number: int) -> None:
        self.log.close()
        indexes = index_paths(self.path)
        if indexes:
            os.unlink(indexes[number % len(indexes)])
        self.log, report = open_log(self.path, clean=True, **self.options)

        assert report.rebuilt_indexes == (1 if indexes else 0)
        self.used = max(self.used, self.log.next)

    @rule(seed=st.integers(0, 2**32))
    def a_flipped_bit_is_found_and_costs_one_block_at_most(self, seed: int) -> None:
        sync(self.log)
        with tempfile.TemporaryDirectory() as copies:
            copy = os.path.join(copies, "log")
            shutil.copytree(self.path, copy)
            segments = [path for path in segment_paths(copy) if os.path.getsize(path)]
            if not segments:
                return
            chosen = random.Random(seed)
            victim = chosen.choice(segments)
            flip_bit(victim, chosen.randrange(os.path.getsize(victim) * 8))
            log, report = open_log(copy, clean=False, **self.options)
            left = drain(log)
            lost = [block for block in self.blocks if not set(block) <= set(left)]
            found = report.torn_blocks + report.damaged_headers + len(report.damage) + log.damaged_blocks
            crash(log)

        assert set(left) <= set(self.messages)
        assert len(lost) <= 1
        assert found == 1
        assert all(not set(block) & set(left) for block in lost)

    @rule(share=st.floats(0, 1))
    def retire(self, share: float) -> None:
        passed = self.log.oldest + int((self.log.next - self.log.oldest) * share)
        self.log.retire(lambda _base, end: end > passed)

        self.blocks = [block for block in self.blocks if block[0][0] >= self.log.oldest]
        self.due = [block for block in self.due if block[0] >= self.log.oldest]
        assert self.log.oldest <= max(passed, self.log.oldest)

    @invariant()
    def everything_is_read_back(self) -> None:
        if hasattr(self, "log"):
            assert drain(self.log) == self.messages
            assert self.log.take_damage() == []

    @invariant()
    def arithmetic_agrees(self) -> None:
        if hasattr(self, "log"):
            middle = (self.log.oldest + self.log.next) // 2
            assert self.log.count(0, self.log.next) == len(self.messages)
            assert self.log.count(middle, self.log.next) == sum(
                offset >= middle for offset, _ in self.messages
            )
            assert self.log.due_blocks(0, self.log.next) == self.due

    def _keep_only(self, left: list[Message]) -> None:
        kept = set(left)
        self.blocks = [block for block in self.blocks if set(block) <= kept]
        assert self.messages == left
        self.due = [block for block in self.due if any(block[0] == offset for offset, _ in left)]


TestLogAgainstList = LogAgainstList.TestCase
TestLogAgainstList.settings = settings(
    max_examples=60,
    stateful_step_count=25,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
