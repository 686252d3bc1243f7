"""nsqd and its nsqlookupds: what they hear, and what it asks them. Specification, section 5."""

import contextlib
import errno
from collections.abc import Iterator

import pytest

from nsqlake.nsqd.daemon import Daemon
from nsqlake.testing.nsqd import NsqdFixture, running_nsqd
from tests.fakes.faulty_files import FaultyFiles
from tests.fakes.lookupd import DROP, STALL, LookupdThread, framed, http_answer, running_lookupd
from tests.integration.conftest import Connect
from tests.integration.support import eventually, find_channel, find_topic, has_channel, has_topic

SECOND_NS = 1_000_000_000


@pytest.fixture
def lookupd() -> Iterator[LookupdThread]:
    with running_lookupd() as lookupd:
        yield lookupd


@contextlib.contextmanager
def announced_nsqd(*lookupds: LookupdThread, **options: object) -> Iterator[NsqdFixture]:
    """An nsqd whose lookupds all know it."""
    addresses = tuple(lookupd.fake.address for lookupd in lookupds)
    with running_nsqd(lookupd_tcp_addresses=addresses, broadcast_address="node-1", **options) as nsqd:
        eventually(lambda: set(connected(nsqd)) == set(addresses))
        yield nsqd


def connected(nsqd: NsqdFixture) -> list[str]:
    return nsqd.call(lambda daemon: daemon.announcements.connected)


def set_addresses(nsqd: NsqdFixture, *lookupds: LookupdThread) -> None:
    addresses = [lookupd.fake.address for lookupd in lookupds]
    nsqd.call(lambda daemon: daemon.announcements.set_addresses(addresses))


def create(nsqd: NsqdFixture, topic: str, *channels: str) -> None:
    async def open_all(daemon: Daemon) -> None:
        opened = await daemon.broker.open_topic(topic)
        for channel in channels:
            await daemon.broker.open_channel(opened, channel)

    nsqd.call(open_all)


def delete(nsqd: NsqdFixture, topic: str, channel: str = "") -> None:
    async def delete_it(daemon: Daemon) -> None:
        if channel:
            await daemon.broker.delete_channel(find_channel(daemon, topic, channel))
        else:
            await daemon.broker.delete_topic(find_topic(daemon, topic))

    nsqd.call(delete_it)


# What a lookupd hears ---------------------------------------------------------------------------------


def test_nsqd_introduces_itself(lookupd: LookupdThread) -> None:
    with announced_nsqd(lookupd, broadcast_http_port=4151, topology_region="r", topology_zone="z") as nsqd:
        talk = lookupd.fake.latest

        assert talk.magic == b"  V1"
        assert list(talk.identity) == [
            "broadcast_address",
            "hostname",
            "http_port",
            "tcp_port",
            "topology_region",
            "topology_zone",
            "version",
        ]
        assert talk.identity["broadcast_address"] == "node-1"
        assert (talk.identity["tcp_port"], talk.identity["http_port"]) == (nsqd.tcp_port, 4151)
        assert (talk.identity["topology_region"], talk.identity["topology_zone"]) == ("r", "z")
        assert talk.identity["version"] == "1.3.0"


def test_the_same_lookupd_given_twice_is_one_connection(lookupd: LookupdThread) -> None:
    """Edge case 148."""
    with announced_nsqd(lookupd, lookupd) as nsqd:
        create(nsqd, "orders")
        lookupd.wait_for("REGISTER orders")

        assert len(lookupd.fake.conversations) == 1


def test_what_clients_create_is_registered_with_every_lookupd(
    lookupd: LookupdThread, connect: Connect
) -> None:
    with running_lookupd() as other, announced_nsqd(lookupd, other) as nsqd:
        connect(nsqd).pub("published", b"x")
        connect(nsqd).sub("subscribed", "archive")
        connect(nsqd).sub("short#ephemeral", "live#ephemeral")

        for each in (lookupd, other):
            each.wait_for(
                "REGISTER published",
                "REGISTER subscribed",
                "REGISTER subscribed archive",
                "REGISTER short#ephemeral",
                "REGISTER short#ephemeral live#ephemeral",
            )


def test_what_is_deleted_is_unregistered(lookupd: LookupdThread) -> None:
    with announced_nsqd(lookupd) as nsqd:
        create(nsqd, "orders", "a", "b")
        lookupd.wait_for("REGISTER orders a", "REGISTER orders b")

        delete(nsqd, "orders", "a")
        lookupd.wait_for("UNREGISTER orders a")
        assert "UNREGISTER orders" not in lookupd.fake.latest.commands

        delete(nsqd, "orders")
        lookupd.wait_for("UNREGISTER orders", "UNREGISTER orders b")
        assert lookupd.fake.latest.registered == []


def test_ephemeral_ones_that_go_by_themselves_are_unregistered(
    lookupd: LookupdThread, connect: Connect
) -> None:
    with announced_nsqd(lookupd) as nsqd:
        client = connect(nsqd)
        client.sub("short#ephemeral", "live#ephemeral")
        lookupd.wait_for("REGISTER short#ephemeral live#ephemeral")

        client.close()

        lookupd.wait_for("UNREGISTER short#ephemeral live#ephemeral", "UNREGISTER short#ephemeral")


def test_a_channel_deleted_while_it_is_made_does_not_stay_registered(lookupd: LookupdThread) -> None:
    async def make_and_delete(daemon: Daemon) -> None:
        topic = await daemon.broker.open_topic("orders")
        channel = daemon.broker._add_channel(topic, "brief")
        await daemon.broker.delete_channel(channel)

    with announced_nsqd(lookupd) as nsqd:
        nsqd.call(make_and_delete)
        create(nsqd, "later")
        lookupd.wait_for("REGISTER later")

        assert lookupd.fake.latest.registered == ["later", "orders"]


def test_a_channel_that_may_yet_fail_is_not_registered_with_the_rest(lookupd: LookupdThread) -> None:
    async def begin(daemon: Daemon) -> list[bytes]:
        topic = await daemon.broker.open_topic("orders")
        daemon.broker._add_channel(topic, "a")
        return daemon.announcements._registrations()

    with announced_nsqd(lookupd) as nsqd:
        assert nsqd.call(begin) == [b"REGISTER orders\n"]

        lookupd.wait_for("REGISTER orders a")


def test_a_topic_that_could_not_be_deleted_is_not_registered_again(lookupd: LookupdThread) -> None:
    with running_lookupd() as other, announced_nsqd(lookupd) as nsqd:
        files = FaultyFiles()
        files.fail("rename", errno.EIO, path="stuck")
        create(nsqd, "stuck", "a")
        create(nsqd, "fine")
        nsqd.call(lambda daemon: setattr(daemon.broker._data, "files", files))
        with pytest.raises(OSError, match="stuck"):
            delete(nsqd, "stuck")

        set_addresses(nsqd, other)
        other.wait_for("REGISTER fine")

        assert other.fake.latest.registered == ["fine"]


def test_what_nsqd_has_when_it_starts_is_registered(lookupd: LookupdThread, tmp_path) -> None:
    with running_nsqd(data_path=str(tmp_path)) as nsqd:
        create(nsqd, "empty")
        create(nsqd, "orders", "a", "b")

    with announced_nsqd(lookupd, data_path=str(tmp_path)):
        lookupd.wait_for("REGISTER empty", "REGISTER orders a", "REGISTER orders b")

        assert lookupd.fake.latest.commands[0] == "IDENTIFY"
        assert lookupd.fake.latest.registered == ["empty", "orders a", "orders b"]
        assert lookupd.fake.http_requests == []


def test_a_stop_says_nothing(lookupd: LookupdThread, connect: Connect) -> None:
    """Edge case 154."""
    with announced_nsqd(lookupd) as nsqd:
        connect(nsqd).sub("orders", "live#ephemeral")
        create(nsqd, "orders", "a")
        lookupd.wait_for("REGISTER orders a")
        commands = list(lookupd.fake.latest.commands)

    lookupd.wait_until(lambda: lookupd.fake.latest.has_ended)
    assert lookupd.fake.latest.commands == commands
    assert lookupd.fake.latest.rest == b""


# Lookupds that come, go and misbehave -----------------------------------------------------------------


def test_addresses_are_changed_while_nsqd_runs(lookupd: LookupdThread) -> None:
    """Edge case 153."""
    with running_lookupd() as other, announced_nsqd(lookupd) as nsqd:
        create(nsqd, "orders", "a")
        lookupd.wait_for("REGISTER orders a")

        set_addresses(nsqd, other)

        lookupd.wait_until(lambda: lookupd.fake.latest.has_ended)
        other.wait_for("IDENTIFY", "REGISTER orders a")
        assert other.fake.latest.magic == b"  V1"
        set_addresses(nsqd)
        other.wait_until(lambda: other.fake.latest.has_ended)


def test_a_topic_created_while_the_connection_is_lost_is_registered(lookupd: LookupdThread) -> None:
    """Edge case 155, where NSQ would leave it to the next command or ping."""
    with announced_nsqd(lookupd) as nsqd:
        create(nsqd, "before", "a")
        lookupd.wait_for("REGISTER before a")
        lookupd.call(lookupd.fake.latest.drop)

        create(nsqd, "after")

        lookupd.wait_until(lambda: len(lookupd.fake.conversations) >= 2)
        lookupd.wait_for("IDENTIFY", "REGISTER before a", "REGISTER after")


def test_a_lookupd_that_restarts_hears_everything_again(lookupd: LookupdThread) -> None:
    with announced_nsqd(lookupd) as nsqd:
        create(nsqd, "orders", "a")
        lookupd.wait_for("REGISTER orders a")

        lookupd.call(lookupd.fake.stop)
        eventually(lambda: connected(nsqd) == [])
        lookupd.call(lookupd.fake.start)

        lookupd.wait_until(lambda: len(lookupd.fake.conversations) == 2)
        lookupd.wait_for("REGISTER orders a")


@pytest.mark.parametrize(
    "answer", [STALL, DROP, framed(b"E_INVALID"), b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff", framed(b"junk")]
)
def test_a_lookupd_that_misbehaves_disturbs_nobody(
    answer: bytes, lookupd: LookupdThread, connect: Connect
) -> None:
    lookupd.fake.answers["IDENTIFY"] = answer
    with running_lookupd() as good:
        addresses = (lookupd.fake.address, "nowhere", "127.0.0.1:1", good.fake.address)
        with running_nsqd(lookupd_tcp_addresses=addresses) as nsqd:
            lookupd.wait_until(lambda: bool(lookupd.fake.conversations))

            connect(nsqd).pub("orders", b"x")

            good.wait_for("REGISTER orders")
            assert all(talk.commands in ([], ["IDENTIFY"]) for talk in lookupd.fake.conversations)


def test_a_node_that_drains_is_on_no_list_any_more(lookupd: LookupdThread) -> None:
    with announced_nsqd(lookupd) as nsqd:
        create(nsqd, "empty")
        create(nsqd, "orders", "a")
        lookupd.wait_for("REGISTER orders a")

        nsqd.call(lambda daemon: daemon.broker.start_drain())

        lookupd.wait_for("UNREGISTER empty", "UNREGISTER orders", "UNREGISTER orders a")
        assert lookupd.fake.latest.registered == []
        assert connected(nsqd) == [lookupd.fake.address]


# Channels made before the first message ---------------------------------------------------------------


def test_channels_known_elsewhere_are_made_before_the_first_message(
    lookupd: LookupdThread, connect: Connect
) -> None:
    """Edge case 152."""
    lookupd.fake.channels["orders"] = ["pre", "e#ephemeral", "pre2"]
    with announced_nsqd(lookupd) as nsqd:
        client = connect(nsqd)
        client.pub("orders", b"first")

        channels = nsqd.call(lambda daemon: sorted(find_topic(daemon, "orders").channels))
        depths = nsqd.call(
            lambda daemon: [find_channel(daemon, "orders", name).core.depth for name in channels]
        )

        assert (channels, depths) == (["pre", "pre2"], [1, 1])
        lookupd.wait_for("REGISTER orders", "REGISTER orders pre", "REGISTER orders pre2")
        (request,) = lookupd.fake.http_requests
        assert request.startswith("GET /channels?topic=orders HTTP/1.1\r\n")


def test_channels_made_beforehand_survive_a_restart(lookupd: LookupdThread, tmp_path) -> None:
    lookupd.fake.channels["orders"] = ["pre"]
    with announced_nsqd(lookupd, data_path=str(tmp_path)) as nsqd:
        create(nsqd, "orders")

    with running_nsqd(data_path=str(tmp_path)) as nsqd:
        assert has_channel(nsqd, "orders", "pre")


def test_a_subscriber_creates_the_other_channels_too(lookupd: LookupdThread, connect: Connect) -> None:
    lookupd.fake.channels["orders"] = ["pre"]
    with announced_nsqd(lookupd) as nsqd:
        connect(nsqd).sub("orders", "mine")

        assert has_channel(nsqd, "orders", "pre")
        assert has_channel(nsqd, "orders", "mine")


def test_an_ephemeral_topic_gets_its_channels_too(lookupd: LookupdThread) -> None:
    lookupd.fake.channels["short#ephemeral"] = ["pre"]
    with announced_nsqd(lookupd) as nsqd:
        create(nsqd, "short#ephemeral")

        assert has_channel(nsqd, "short#ephemeral", "pre")
        assert "topic=short%23ephemeral " in lookupd.fake.http_requests[0]


def test_everybody_is_asked_and_who_fails_is_only_logged(
    lookupd: LookupdThread, connect: Connect, caplog: pytest.LogCaptureFixture
) -> None:
    lookupd.fake.http_reply = http_answer(b"{}", status=500)
    with running_lookupd() as good, announced_nsqd(lookupd, good) as nsqd:
        good.fake.channels["orders"] = ["pre"]

        connect(nsqd).pub("orders", b"x")

        assert has_channel(nsqd, "orders", "pre")
        assert (
            f"LOOKUPD({lookupd.fake.http_address}): channels of orders not found: status 500" in caplog.text
        )


def test_a_lookupd_without_a_description_is_not_asked(lookupd: LookupdThread, connect: Connect) -> None:
    lookupd.fake.answers["IDENTIFY"] = framed(b"{}")
    with announced_nsqd(lookupd) as nsqd:
        connect(nsqd).pub("orders", b"x")
        lookupd.wait_for("REGISTER orders")

        assert lookupd.fake.http_requests == []


def test_publishers_wait_for_the_answer_but_no_longer_than_the_limit(
    lookupd: LookupdThread, connect: Connect
) -> None:
    lookupd.fake.http_reply = STALL
    with announced_nsqd(lookupd, http_client_request_timeout_ns=SECOND_NS // 4) as nsqd:
        connect(nsqd).pub("orders", b"x")

        assert len(lookupd.fake.http_requests) == 1
        assert nsqd.call(lambda daemon: find_topic(daemon, "orders").core.depth) == 1


def test_others_publish_while_one_waits(lookupd: LookupdThread, connect: Connect) -> None:
    lookupd.fake.http_reply = STALL
    with announced_nsqd(lookupd, http_client_request_timeout_ns=60 * SECOND_NS) as nsqd:
        nsqd.call(lambda daemon: daemon.announcements.set_addresses([]))
        create(nsqd, "known")
        set_addresses(nsqd, lookupd)
        eventually(lambda: connected(nsqd) == [lookupd.fake.address])
        connect(nsqd).send(b"PUB new\n\x00\x00\x00\x01x")
        lookupd.wait_until(lambda: bool(lookupd.fake.http_requests))

        connect(nsqd).pub("known", b"y")

        assert not has_topic(nsqd, "new")


def test_a_stop_does_not_wait_for_the_answer(lookupd: LookupdThread, connect: Connect) -> None:
    lookupd.fake.http_reply = STALL
    with announced_nsqd(lookupd, http_client_request_timeout_ns=600 * SECOND_NS) as nsqd:
        connect(nsqd).send(b"PUB orders\n\x00\x00\x00\x01x")
        lookupd.wait_until(lambda: bool(lookupd.fake.http_requests))


def test_the_topic_stays_when_a_channel_cannot_be_made(
    lookupd: LookupdThread, connect: Connect, caplog: pytest.LogCaptureFixture
) -> None:
    lookupd.fake.channels["orders"] = ["pre"]
    with announced_nsqd(lookupd) as nsqd:
        files = FaultyFiles()
        files.fail("rename", errno.EIO, at=2, path="state")  # the first is that of the topic itself
        nsqd.call(lambda daemon: setattr(daemon.broker._data, "files", files))

        connect(nsqd).pub("orders", b"x")

        assert not has_channel(nsqd, "orders", "pre")
        assert "CHANNEL(orders/pre): not created" in caplog.text
        caplog.clear()
