import contextlib
from collections.abc import AsyncIterator
from dataclasses import replace

from nsqlake.nsqd.lookup.announcements import Announcements, describe_node
from nsqlake.nsqd.lookup.channel_discovery import ChannelDiscovery
from nsqlake.nsqd.lookup.lookup_peer import LookupTiming
from nsqlake.nsqd.options import NsqdOptions
from nsqlake.runtime.tasks import TaskSupervisor
from tests.fakes.lookupd import STALL, FakeLookupd
from tests.nsqd.lookup.support import MAX_REPLY_BYTES, NODE, QUICK, run_on_loop, run_with_lookupd, until

TOPICS = {"a": [], "b": ["c", "d#ephemeral"]}


@contextlib.asynccontextmanager
async def announcing(*lookupds: FakeLookupd, timing: LookupTiming = QUICK) -> AsyncIterator[Announcements]:
    tasks = TaskSupervisor()
    announcements = Announcements(
        NODE, TOPICS.items, tasks, ChannelDiscovery(), max_reply_bytes=MAX_REPLY_BYTES, timing=timing
    )
    announcements.set_addresses(lookupd.address for lookupd in lookupds)
    for lookupd in lookupds:
        await lookupd.wait_for("REGISTER a", "REGISTER b c", "REGISTER b d#ephemeral")
    yield announcements
    await announcements.close()
    await tasks.close()
    assert tasks.failure_count == 0


def test_topics_with_channels_are_registered_by_their_channels_only() -> None:
    async def scenario(lookupd: FakeLookupd) -> None:
        async with announcing(lookupd):
            assert lookupd.latest.commands == [
                "IDENTIFY",
                "REGISTER a",
                "REGISTER b c",
                "REGISTER b d#ephemeral",
            ]

    run_with_lookupd(scenario)


def test_every_lookupd_hears_what_is_created_and_deleted() -> None:
    async def scenario(lookupd: FakeLookupd) -> None:
        async with FakeLookupd() as other, announcing(lookupd, other) as announcements:
            announcements.created("new")
            announcements.created("new", "c")
            announcements.deleted("new", "c")
            announcements.deleted("new")

            for each in (lookupd, other):
                await each.wait_for("UNREGISTER new")
                assert each.latest.commands[-4:] == [
                    "REGISTER new",
                    "REGISTER new c",
                    "UNREGISTER new c",
                    "UNREGISTER new",
                ]

    run_with_lookupd(scenario)


def test_a_lookupd_that_stalls_holds_up_no_other() -> None:
    async def scenario(lookupd: FakeLookupd) -> None:
        async with FakeLookupd() as other, announcing(lookupd, other) as announcements:
            lookupd.answers["REGISTER"] = STALL

            announcements.created("new")
            announcements.created("newer")
            await other.wait_for("REGISTER new", "REGISTER newer")

            assert "REGISTER newer" not in lookupd.latest.commands

    run_with_lookupd(scenario)


def test_one_address_given_twice_is_one_connection() -> None:
    async def scenario(lookupd: FakeLookupd) -> None:
        async with announcing(lookupd) as announcements:
            announcements.set_addresses([lookupd.address, lookupd.address])
            announcements.created("new")
            await lookupd.wait_for("REGISTER new")

            assert announcements.addresses == (lookupd.address, lookupd.address)
            assert announcements.connected == [lookupd.address]
            assert len(lookupd.conversations) == 1

    run_with_lookupd(scenario)


def test_addresses_can_be_changed_while_running() -> None:
    async def scenario(lookupd: FakeLookupd) -> None:
        async with FakeLookupd() as other, announcing(lookupd) as announcements:
            announcements.set_addresses([other.address])

            await lookupd.wait_until(lambda: lookupd.latest.has_ended)
            await other.wait_for("IDENTIFY", "REGISTER a", "REGISTER b c", "REGISTER b d#ephemeral")
            await until(lambda: announcements.connected == [other.address])
            assert not any("UNREGISTER" in command for command in lookupd.latest.commands)

    run_with_lookupd(scenario)


def test_leaving_unregisters_everything_and_stays_quiet() -> None:
    timing = replace(QUICK, ping_s=0.01)

    async def scenario(lookupd: FakeLookupd) -> None:
        async with announcing(lookupd, timing=timing) as announcements:
            lookupd.latest.commands.clear()

            announcements.leave()
            announcements.created("late")
            announcements.leave()
            await lookupd.wait_for("UNREGISTER b")

            assert [command for command in lookupd.latest.commands if command != "PING"] == [
                "UNREGISTER a",
                "UNREGISTER b c",
                "UNREGISTER b d#ephemeral",
                "UNREGISTER b",
            ]

            await lookupd.stop()
            await lookupd.start()
            await lookupd.wait_until(
                lambda: len(lookupd.conversations) == 2 and lookupd.latest.commands.count("PING") == 3
            )
            assert not any(command.startswith("REGISTER") for command in lookupd.latest.commands)

    run_with_lookupd(scenario)


def test_closing_sends_nothing_and_is_final() -> None:
    async def scenario(lookupd: FakeLookupd) -> None:
        async with announcing(lookupd) as announcements:
            commands = list(lookupd.latest.commands)

            await announcements.close()
            announcements.deleted("a")
            announcements.set_addresses([lookupd.address])
            await lookupd.wait_until(lambda: lookupd.latest.has_ended)

            assert lookupd.latest.commands == commands
            assert lookupd.latest.rest == b""
            assert announcements.connected == []

    run_with_lookupd(scenario)


def test_channels_are_asked_for_where_the_http_api_is_known() -> None:
    async def scenario(lookupd: FakeLookupd) -> None:
        lookupd.channels["t"] = ["c"]
        async with announcing() as announcements:
            assert await announcements.find_channels("t") == []
            announcements.set_addresses([lookupd.address])
            await until(lambda: bool(announcements.connected))

            assert await announcements.find_channels("t") == ["c"]

    run_with_lookupd(scenario)


def test_the_ports_announced_are_the_options_or_the_listeners() -> None:
    given = NsqdOptions(broadcast_address="x", broadcast_tcp_port=1, broadcast_http_port=2)
    left_out = NsqdOptions(broadcast_address="x", topology_region="r", topology_zone="z")

    chosen = describe_node(given, tcp_port=4150, http_port=4151)
    real = describe_node(left_out, tcp_port=4150, http_port=4151)
    unix = describe_node(left_out, tcp_port=-1, http_port=-1)

    assert (chosen.tcp_port, chosen.http_port) == (1, 2)
    assert (real.tcp_port, real.http_port) == (4150, 4151)
    assert (real.topology_region, real.topology_zone) == ("r", "z")
    assert (unix.tcp_port, unix.http_port) == (0, 0)


def test_nothing_is_connected_without_addresses() -> None:
    async def scenario() -> None:
        async with announcing() as announcements:
            announcements.created("t")
            assert announcements.connected == []

    run_on_loop(scenario())
