import logging

import pytest

from nsqlake.nsqd.lookup import lookup_peer
from nsqlake.nsqd.lookup.lookup_peer import LookupTiming
from nsqlake.wire.lookup_commands import register, unregister
from tests.fakes.lookupd import DROP, STALL, FakeLookupd, framed
from tests.nsqd.lookup.support import QUICK, run_with_lookupd, running_peer, until

IMPATIENT = LookupTiming(ping_s=600, limit_s=0.05, first_retry_s=0.002, last_retry_s=0.004)
PATIENT = LookupTiming(ping_s=600, limit_s=600, first_retry_s=0.002, last_retry_s=0.004)
NEVER_BY_ITSELF = LookupTiming(ping_s=600, limit_s=5, first_retry_s=600, shortest_retry_s=0.001)


def test_a_peer_is_told_who_we_are_and_then_what_we_have() -> None:
    async def scenario(lookupd: FakeLookupd) -> None:
        async with running_peer(lookupd.address, register("a"), register("b", "c")) as peer:
            await lookupd.wait_for("REGISTER b c")

            assert lookupd.latest.magic == b"  V1"
            assert lookupd.latest.identity["broadcast_address"] == "me"
            assert lookupd.latest.commands == ["IDENTIFY", "REGISTER a", "REGISTER b c"]
            assert peer.is_connected
            assert peer.http_address == lookupd.http_address

    run_with_lookupd(scenario)


def test_commands_wait_for_the_reply_to_the_one_before() -> None:
    async def scenario(lookupd: FakeLookupd) -> None:
        lookupd.answers["REGISTER a"] = STALL
        async with running_peer(lookupd.address) as peer:
            peer.send(register("a"))
            peer.send(register("b"))
            await lookupd.wait_for("IDENTIFY")
            await until(lambda: peer.is_connected)

            peer.send(register("a"))
            peer.send(register("b"))
            await lookupd.wait_for("REGISTER a")
            assert "REGISTER b" not in lookupd.latest.commands

            lookupd.latest.say(framed(b"OK"))
            await lookupd.wait_for("REGISTER b")

    run_with_lookupd(scenario)


def test_a_peer_is_pinged_while_nothing_happens() -> None:
    async def scenario(lookupd: FakeLookupd) -> None:
        timing = LookupTiming(ping_s=0.01)
        async with running_peer(lookupd.address, timing=timing):
            await lookupd.wait_until(
                lambda: bool(lookupd.conversations) and lookupd.latest.commands.count("PING") >= 3
            )

        assert len(lookupd.conversations) == 1

    run_with_lookupd(scenario)


def test_the_times_are_those_of_nsq() -> None:
    assert (LookupTiming().ping_s, LookupTiming().limit_s) == (15.0, 1.0)


def test_retries_come_at_growing_intervals_that_differ_from_node_to_node() -> None:
    timing = LookupTiming()

    assert [timing.retry_s(failures, 1.0) for failures in (0, 1, 2, 3, 4, 10_000)] == [1, 2, 4, 8, 15, 15]
    assert timing.retry_s(1, 0.0) == 1.0


@pytest.mark.parametrize(
    "answer", [STALL, DROP, framed(b"E_INVALID cannot"), framed(b"x" * 5000), b"\xff" * 8, framed(b"OK") * 2]
)
def test_after_a_bad_reply_everything_is_registered_on_a_new_connection(answer: bytes) -> None:
    async def scenario(lookupd: FakeLookupd) -> None:
        lookupd.answers["REGISTER b"] = answer
        async with running_peer(lookupd.address, register("a"), register("b"), timing=IMPATIENT):
            await lookupd.wait_for("REGISTER b")
            del lookupd.answers["REGISTER b"]
            await lookupd.wait_until(lambda: len(lookupd.conversations) >= 2)
            await lookupd.wait_for("IDENTIFY", "REGISTER a", "REGISTER b")

            assert lookupd.conversations[0].has_ended

    run_with_lookupd(scenario)


@pytest.mark.parametrize("answer", [framed(b"E_INVALID"), framed(b"no JSON"), framed(b"[]"), STALL, DROP])
def test_a_peer_that_does_not_accept_us_is_tried_again(answer: bytes) -> None:
    async def scenario(lookupd: FakeLookupd) -> None:
        lookupd.answers["IDENTIFY"] = answer
        async with running_peer(lookupd.address, register("a"), timing=IMPATIENT) as peer:
            await lookupd.wait_until(lambda: len(lookupd.conversations) >= 3)
            assert not peer.is_connected
            assert peer.failures >= 2
            assert all(talk.commands in ([], ["IDENTIFY"]) for talk in lookupd.conversations)

            lookupd.answers.clear()
            await lookupd.wait_for("REGISTER a")
            await until(lambda: peer.failures == 0)

    run_with_lookupd(scenario)


def test_an_empty_description_is_tolerated_and_said(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(lookupd: FakeLookupd) -> None:
        lookupd.answers["IDENTIFY"] = framed(b"{}")
        async with running_peer(lookupd.address, register("a")) as peer:
            await lookupd.wait_for("REGISTER a")

            assert peer.is_connected
            assert peer.http_address == ""

    run_with_lookupd(scenario)

    assert "gave no usable address of its HTTP API" in caplog.text


def test_a_lookupd_that_restarts_is_found_again_without_a_command() -> None:
    async def scenario(lookupd: FakeLookupd) -> None:
        async with running_peer(lookupd.address, register("a")) as peer:
            await lookupd.wait_for("REGISTER a")

            await lookupd.stop()
            await until(lambda: not peer.is_connected)
            await lookupd.start()
            await lookupd.wait_until(lambda: len(lookupd.conversations) == 2)
            await lookupd.wait_for("REGISTER a")

    run_with_lookupd(scenario)


def test_a_command_does_not_wait_for_the_retry() -> None:
    async def scenario(lookupd: FakeLookupd) -> None:
        async with running_peer(lookupd.address, register("a"), timing=NEVER_BY_ITSELF) as peer:
            await lookupd.wait_for("REGISTER a")
            lookupd.latest.drop()
            await until(lambda: not peer.is_connected)

            peer.send(register("a"))
            await lookupd.wait_until(lambda: len(lookupd.conversations) == 2)
            await lookupd.wait_for("REGISTER a")

    run_with_lookupd(scenario)


def test_what_was_deleted_without_a_connection_is_unregistered_before_all_is_registered() -> None:
    async def scenario(lookupd: FakeLookupd) -> None:
        async with running_peer(lookupd.address, register("a"), timing=NEVER_BY_ITSELF) as peer:
            await lookupd.wait_for("REGISTER a")
            lookupd.latest.drop()
            await until(lambda: not peer.is_connected)

            peer.send(register("gone", "e#ephemeral"))
            peer.send(unregister("gone", "e#ephemeral"))
            await lookupd.wait_until(lambda: len(lookupd.conversations) == 2)
            await lookupd.wait_for("REGISTER a")

            assert lookupd.latest.commands == ["IDENTIFY", "UNREGISTER gone e#ephemeral", "REGISTER a"]

    run_with_lookupd(scenario)


def test_commands_for_a_peer_that_is_away_take_bounded_memory() -> None:
    async def scenario(lookupd: FakeLookupd) -> None:
        lookupd.answers["IDENTIFY"] = STALL
        async with running_peer(lookupd.address, timing=QUICK) as peer:
            for number in range(2 * lookup_peer.MAX_WAITING):
                peer.send(register(f"t{number}"))

            assert len(peer._waiting) == lookup_peer.MAX_WAITING

    run_with_lookupd(scenario)


def test_a_peer_that_is_too_slow_begins_again_with_what_is_registered() -> None:
    async def scenario(lookupd: FakeLookupd) -> None:
        lookupd.answers["REGISTER slow"] = STALL
        async with running_peer(lookupd.address, register("a"), timing=PATIENT) as peer:
            await lookupd.wait_for("REGISTER a")
            peer.send(register("slow"))
            await lookupd.wait_for("REGISTER slow")

            for number in range(lookup_peer.MAX_WAITING + 2):
                peer.send(register(f"t{number}"))
            await lookupd.wait_until(lambda: len(lookupd.conversations) == 2)
            await lookupd.wait_for("REGISTER a")

            assert lookupd.latest.commands == ["IDENTIFY", "REGISTER a"]

    run_with_lookupd(scenario)


def test_failures_are_logged_once_each_with_their_reason(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(lookupd: FakeLookupd) -> None:
        lookupd.answers["IDENTIFY"] = framed(b"E_INVALID go away")
        async with running_peer(lookupd.address, timing=NEVER_BY_ITSELF):
            await lookupd.wait_until(lambda: bool(lookupd.conversations) and lookupd.latest.has_ended)

        (record,) = [record for record in caplog.records if record.levelno >= logging.WARNING]
        assert record.getMessage().startswith(f"LOOKUPD({lookupd.address}): not connected retry_s=")
        assert record.getMessage().endswith(": E_INVALID go away")

    run_with_lookupd(scenario)
