"""Gathering and watching, on a transport that shows what it was given."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from nsqlake.client.outgoing import HIGH_WATER_BYTES, Outgoing
from nsqlake.wire.compression import DeflateDecoder, DeflateEncoder, Encoder
from tests.fakes.loop_turns import next_turn
from tests.fakes.moved_timers import MovedTimers


class ShownTransport(asyncio.Transport):
    """Takes everything and sends what the test lets it send."""

    def __init__(self) -> None:
        super().__init__()
        self.writes: list[bytes] = []
        self.unsent_bytes = 0
        self.is_stuck = False
        self.has_ended = False

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self.limits = (high, low)

    def write(self, data: Any) -> None:
        self.writes.append(data)
        self.unsent_bytes += len(data) if self.is_stuck else 0

    def get_write_buffer_size(self) -> int:
        return self.unsent_bytes

    def is_closing(self) -> bool:
        return False

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        self.has_ended = True


class Harness:
    def __init__(self, encoder: Encoder | None = None) -> None:
        self.transport, self.timers = ShownTransport(), MovedTimers()
        self.stuck_count = 0
        self.outgoing = Outgoing(
            (self.transport, self.transport),
            encoder,
            timers=self.timers,
            limit_s=1.0,
            on_stuck=self._note_stuck,
        )

    def _note_stuck(self) -> None:
        self.stuck_count += 1

    def fill(self, size: int) -> None:
        """The transport cannot send any more."""
        self.transport.is_stuck = True
        self.transport.unsent_bytes = size
        self.outgoing.pause()


def run(scenario: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(scenario())


def test_what_is_written_in_one_turn_is_one_write() -> None:
    async def scenario() -> None:
        harness = Harness()

        for number in range(10):
            harness.outgoing.write(b"%d\n" % number)
        assert harness.transport.writes == []
        await next_turn()
        harness.outgoing.write(b"later\n")
        await next_turn()

        assert harness.transport.writes == [b"0\n1\n2\n3\n4\n5\n6\n7\n8\n9\n", b"later\n"]
        assert harness.outgoing.sent_bytes == 26

    run(scenario)


def test_a_batch_is_compressed_once() -> None:
    async def scenario() -> None:
        harness = Harness(DeflateEncoder(6))

        for _ in range(100):
            harness.outgoing.write(b"FIN 0123456789abcdef\n")
        await next_turn()

        (write,) = harness.transport.writes
        decoder = DeflateDecoder()
        decoder.feed(write)
        assert decoder.read(10_000) == b"FIN 0123456789abcdef\n" * 100
        assert harness.outgoing.sent_bytes == len(write) < 200

    run(scenario)


def test_while_the_peer_is_slow_everything_is_gathered_here() -> None:
    async def scenario() -> None:
        harness = Harness()
        harness.fill(100)

        harness.outgoing.write(b"a")
        await next_turn()
        harness.outgoing.write(b"b")
        await next_turn()
        assert harness.transport.writes == []
        harness.outgoing.resume()

        assert harness.transport.writes == [b"ab"]

    run(scenario)


def test_there_is_room_below_the_high_water_mark() -> None:
    async def scenario() -> None:
        harness = Harness()
        harness.outgoing.write(bytes(HIGH_WATER_BYTES))
        assert harness.outgoing.has_room  # it leaves with this turn
        await next_turn()
        harness.fill(100)

        harness.outgoing.write(bytes(HIGH_WATER_BYTES - 1))
        assert harness.outgoing.has_room
        await harness.outgoing.wait_room()
        harness.outgoing.write(b"x")
        assert not harness.outgoing.has_room

    run(scenario)


@pytest.mark.parametrize("release", ["resume", "end"])
def test_all_who_wait_for_room_are_released(release: str) -> None:
    async def scenario() -> None:
        harness = Harness()
        harness.fill(100)
        harness.outgoing.write(bytes(HIGH_WATER_BYTES))
        waiting = [asyncio.ensure_future(harness.outgoing.wait_room()) for _ in range(3)]
        await next_turn()
        waiting[0].cancel()
        await next_turn()
        assert [task.done() for task in waiting] == [True, False, False]

        getattr(harness.outgoing, release)()
        await asyncio.gather(*waiting[1:])

    run(scenario)


def test_no_progress_at_all_is_noticed_once() -> None:
    async def scenario() -> None:
        harness = Harness()
        harness.transport.is_stuck = True
        harness.outgoing.write(b"x" * 100)
        await next_turn()
        harness.outgoing.pause()

        harness.timers.advance(0.9)
        assert harness.stuck_count == 0
        harness.timers.advance(5.0)

        assert harness.stuck_count == 1

    run(scenario)


def test_slow_progress_is_progress() -> None:
    async def scenario() -> None:
        harness = Harness()
        harness.transport.is_stuck = True
        harness.outgoing.write(b"x" * 100)
        await next_turn()

        for _ in range(99):
            harness.transport.unsent_bytes -= 1
            harness.timers.advance(1.0)
        assert harness.stuck_count == 0
        harness.timers.advance(1.0)

        assert harness.stuck_count == 1

    run(scenario)


def test_the_watch_ends_when_all_is_sent() -> None:
    async def scenario() -> None:
        harness = Harness()
        harness.transport.is_stuck = True
        harness.outgoing.write(b"x")
        await next_turn()
        harness.transport.unsent_bytes = 0

        harness.timers.advance(10.0)

        assert (harness.stuck_count, harness.timers.waiting_count) == (0, 0)

    run(scenario)


def test_finishing_sends_all_there_is_even_to_a_slow_peer() -> None:
    async def scenario() -> None:
        harness = Harness()
        harness.fill(100)
        harness.outgoing.write(b"last")

        harness.outgoing.finish()

        assert harness.transport.writes == [b"last"]
        assert harness.transport.has_ended

    run(scenario)


def test_nothing_stays_after_the_end() -> None:
    async def scenario() -> None:
        harness = Harness()
        harness.transport.is_stuck = True
        harness.outgoing.write(b"x")
        await next_turn()

        harness.outgoing.end()

        assert harness.timers.waiting_count == 0

    run(scenario)
