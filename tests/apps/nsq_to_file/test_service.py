"""Topics from a real nsqd to real files, in this process."""

import asyncio
import errno
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from nsqlake.apps.nsq_to_file.archived_topic import Surroundings
from nsqlake.apps.nsq_to_file.files.disk import OS_DISK
from nsqlake.apps.nsq_to_file.files.file_names import Host
from nsqlake.apps.nsq_to_file.options import NsqToFileOptions
from nsqlake.apps.nsq_to_file.service import Service
from nsqlake.client.config import ClientConfig
from nsqlake.runtime.clock import Clock
from nsqlake.runtime.durations import MILLISECOND_NS, MINUTE_NS
from nsqlake.runtime.timers import LoopTimers
from nsqlake.testing.clock import ManualClock
from nsqlake.testing.nsqd import NsqdFixture, running_nsqd
from tests.apps.nsq_to_file.support import contents
from tests.fakes.faulty_files import FaultyFiles

CHANNEL = "nsq_to_file"
LIMIT_S = 10.0


class Given:
    """A service on one nsqd; files are named by their topics."""

    def __init__(self, nsqd: NsqdFixture, folder: Path, **options: Any) -> None:
        self.output = folder
        self.disk = FaultyFiles(OS_DISK)
        self.archived: list[tuple[int, int]] = []
        options.setdefault("filename_format", "<TOPIC><REV>")
        options.setdefault("sync_interval_ns", 20 * MILLISECOND_NS)
        every = NsqToFileOptions(nsqd_tcp_addresses=(nsqd.tcp_address,), output_dir=str(folder), **options)
        self.shared = Surroundings(
            every,
            ClientConfig(max_in_flight=every.max_in_flight, auto_touch=True, max_attempts=0),
            Host("host", 1),
            Clock(),
            nsqd.timers,
            lambda count, size_bytes: self.archived.append((count, size_bytes)),
            self.disk,  # type: ignore[arg-type]
        )
        self.service = Service(self.shared)

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(LIMIT_S):
            while not condition():
                await asyncio.sleep(0)


@asynccontextmanager
async def given_service(
    folder: Path, topics: list[str], **options: Any
) -> AsyncIterator[tuple[Given, NsqdFixture]]:
    clock = options.pop("clock", None)
    with running_nsqd(clock=clock) as nsqd:
        given = Given(nsqd, folder, **options)
        given.service.update_topics(topics)
        yield given, nsqd
        await given.service.stop()


def run(test: Coroutine[Any, Any, None]) -> None:
    asyncio.run(test)


def test_every_topic_has_files_of_its_own(tmp_path: Path) -> None:
    async def test() -> None:
        async with given_service(tmp_path, ["a", "b", "a"]) as (given, nsqd):
            nsqd.publish("a", b"one", b"two")
            nsqd.publish("b", b"three")
            await nsqd.wait_channel("a", CHANNEL, finished=2)
            await nsqd.wait_channel("b", CHANNEL, finished=1)
        assert sum(count for count, _ in given.archived) == 3
        assert sum(size_bytes for _, size_bytes in given.archived) == 11

    run(test())

    assert contents(tmp_path) == {"a": b"one\ntwo\n", "b": b"three\n"}


def test_a_topic_that_does_not_match_is_skipped_with_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def test() -> None:
        async with given_service(tmp_path, ["ft", "orders"], topic_pattern="^o") as (given, _):
            await given.until(lambda: contents(tmp_path) == {"orders": b""})
            given.service.update_topics(["ft", "orders"])

    run(test())

    assert caplog.text.count("skipping topic ft (doesn't match pattern ^o)") == 2
    assert list(contents(tmp_path)) == ["orders"]


def test_a_broken_pattern_is_told_and_matches_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def test() -> None:
        async with given_service(tmp_path, ["orders"], topic_pattern="("):
            pass

    run(test())

    assert "--topic-pattern matches no topic: " in caplog.text
    assert "skipping topic orders" in caplog.text


def test_an_idle_topic_has_an_empty_file_after_the_first_tick(tmp_path: Path) -> None:
    async def test() -> None:
        async with given_service(tmp_path, ["a"]) as (given, _):
            await given.until(lambda: contents(tmp_path) == {"a": b""})

    run(test())


def test_with_skip_empty_files_there_is_none_before_a_message(tmp_path: Path) -> None:
    async def test() -> None:
        clock = ManualClock()
        every_minute = {"clock": clock, "sync_interval_ns": MINUTE_NS, "skip_empty_files": True}
        async with given_service(tmp_path, ["a"], **every_minute) as (_, nsqd):
            await nsqd.advance(300)
            assert contents(tmp_path) == {}
            nsqd.publish("a", b"one")
            await nsqd.wait_channel("a", CHANNEL, finished=1)

    run(test())

    assert contents(tmp_path) == {"a": b"one\n"}


def test_one_in_flight_is_synced_and_finished_at_once(tmp_path: Path) -> None:
    async def test() -> None:
        options = {"max_in_flight": 1, "sync_interval_ns": 60 * MINUTE_NS}
        async with given_service(tmp_path, ["a"], **options) as (given, nsqd):
            nsqd.publish("a", *(b"%d" % number for number in range(10)))
            await nsqd.wait_channel("a", CHANNEL, finished=10)
        assert given.disk.calls["fsync"] >= 10
        assert given.archived == [(1, 1)] * 10

    run(test())


def test_a_full_share_is_finished_long_before_the_tick(tmp_path: Path) -> None:
    async def test() -> None:
        options = {"max_in_flight": 100, "sync_interval_ns": 60 * MINUTE_NS}
        async with given_service(tmp_path, ["a"], **options) as (_, nsqd):
            nsqd.publish("a", *(b"%d" % number for number in range(1_000)))
            await nsqd.wait_channel("a", CHANNEL, finished=900)

    run(test())

    assert contents(tmp_path) == {"a": b"".join(b"%d\n" % number for number in range(1_000))}


def test_messages_live_on_while_they_wait_for_the_sync(tmp_path: Path) -> None:
    async def test() -> None:
        options = {"clock": ManualClock(), "sync_interval_ns": 5 * MINUTE_NS}
        async with given_service(tmp_path, ["a"], **options) as (given, nsqd):
            nsqd.publish("a", b"one")  # opens the file, and is synced
            await nsqd.wait_channel("a", CHANNEL, finished=1)
            nsqd.publish("a", b"two")
            await nsqd.wait_channel("a", CHANNEL, in_flight=1)
            await given.until(lambda: contents(tmp_path) == {"a": b"one\ntwo\n"})

            await nsqd.advance(299)  # nsqd's own timeout is a minute

            counts = nsqd.channel("a", CHANNEL)
            assert counts is not None
            assert (counts.in_flight, counts.timed_out, counts.finished) == (1, 0, 1)
            await nsqd.advance(1)
            await nsqd.wait_channel("a", CHANNEL, finished=2)

    run(test())

    assert contents(tmp_path) == {"a": b"one\ntwo\n"}


def test_when_a_topic_fails_it_finishes_nothing_more_and_the_others_are_rescued(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def test() -> None:
        async with given_service(tmp_path, ["a", "b"], gzip=True) as (given, nsqd):
            given.disk.fail("fsync", errno.EIO, path="/a-")
            nsqd.publish("b", b"good")
            await nsqd.wait_channel("b", CHANNEL, finished=1)
            nsqd.publish("a", b"lost?")
            async with asyncio.timeout(LIMIT_S):
                await given.service.failed.wait()
            await given.service.rescue()

            assert [message.body for message in nsqd.unfinished("a", CHANNEL)] == [b"lost?"]
            assert nsqd.unfinished("b", CHANNEL) == []

    run(test())

    assert contents(tmp_path)["b-000000.gz"] == b"good\n"
    assert f"[a/{CHANNEL}] syncing to disk: " in caplog.text


def test_a_failure_while_stopping_does_not_wait_for_what_is_not_finished(tmp_path: Path) -> None:
    async def test() -> None:
        async with given_service(tmp_path, ["a"], sync_interval_ns=60 * MINUTE_NS) as (given, nsqd):
            nsqd.publish("a", b"one")
            await nsqd.wait_channel("a", CHANNEL, finished=1)
            given.disk.fail("fsync", errno.EIO, path="/a")
            nsqd.publish("a", b"two")
            await nsqd.wait_channel("a", CHANNEL, in_flight=1)

            async with asyncio.timeout(LIMIT_S):
                await given.service.stop()

            assert given.service.failed.is_set()
            assert [message.body for message in nsqd.unfinished("a", CHANNEL)] == [b"two"]

    run(test())


@pytest.mark.parametrize("topic", ["bad!", "", "a" * 65])
def test_a_topic_that_cannot_be_is_an_error_and_the_others_go_on(
    tmp_path: Path, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def test() -> None:
        async with given_service(tmp_path, [topic, "a"]) as (given, _):
            await given.until(lambda: "a" in contents(tmp_path))

    run(test())

    assert f"couldn't create logger for new topic {topic}: invalid topic name" in caplog.text


def test_an_nsqd_that_comes_later_is_found(tmp_path: Path) -> None:
    """The Go tool never tries again."""

    async def test() -> None:
        with running_nsqd() as gone:
            address = gone.tcp_address
        options = NsqToFileOptions(
            nsqd_tcp_addresses=(address,), output_dir=str(tmp_path), filename_format="<TOPIC>"
        )
        config = ClientConfig(auto_touch=True, reconnect_min_delay=0.01, reconnect_max_delay=0.02)
        shared = Surroundings(options, config, Host("host", 1), Clock(), LoopTimers(), lambda *_: None)
        service = Service(shared)
        service.update_topics(["a"])
        with running_nsqd(tcp_address=address) as nsqd:
            nsqd.publish("a", b"one")
            await nsqd.wait_channel("a", CHANNEL, finished=1)
            await service.stop()

    run(test())

    assert contents(tmp_path) == {"a": b"one\n"}
