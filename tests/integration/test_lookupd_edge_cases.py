"""nsqlookupd over real sockets: every row of section 5 of its specification."""

import re
import signal
import struct
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from nsqlake.testing.clock import ManualClock
from nsqlake.testing.nsqlookupd import NsqlookupdFixture, running_nsqlookupd
from tests.fakes.http_connection import HttpConnection
from tests.fakes.lookup_client import LookupClient, identify, identify_with
from tests.fakes.nsqd_process import wait_for
from tests.integration.support import eventually

LONG = "x" * 64


class Bench:
    """A lookupd with a clock, a way to ask it, and nsqds to come."""

    def __init__(self, lookupd: NsqlookupdFixture, clock: ManualClock, stack: ExitStack) -> None:
        self.lookupd, self.clock, self._stack = lookupd, clock, stack
        self.http = stack.enter_context(HttpConnection(lookupd.http_address))

    def connect(self, magic: bytes = b"  V1") -> LookupClient:
        return self._stack.enter_context(LookupClient(self.lookupd.tcp_address, magic=magic))

    def nsqd(self, host: str = "h1", **fields: object) -> LookupClient:
        client = self.connect()
        client.identify(broadcast_address=host, **fields)
        return client

    def lookup(self, topic: str) -> Any:
        return self.http.get_json(f"/lookup?topic={topic}")

    def producers(self, topic: str) -> list[str]:
        return [found["broadcast_address"] for found in self.lookup(topic)["producers"]]

    def nodes(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.http.get_json("/nodes")["producers"]
        return found

    def channels(self, topic: str) -> list[str]:
        found: list[str] = self.http.get_json(f"/channels?topic={topic}")["channels"]
        return found

    def topics(self) -> list[str]:
        found: list[str] = self.http.get_json("/topics")["topics"]
        return found

    def refused(self, method: str, target: str, body: bytes = b"") -> tuple[int, str]:
        answer = self.http.ask(method, target, body)
        found = re.fullmatch(rb'\{"message":"(\w+)"[^}]*\}', answer.body)
        assert found is not None, answer
        return answer.status, found[1].decode()

    def post(self, target: str) -> None:
        answer = self.http.post(target)
        assert (answer.status, answer.body) == (200, b""), answer


@pytest.fixture
def bench() -> Iterator[Bench]:
    clock = ManualClock()
    with ExitStack() as stack:
        lookupd = stack.enter_context(running_nsqlookupd(clock=clock))
        yield Bench(lookupd, clock, stack)


# TCP --------------------------------------------------------------------------------------------------


def test_1_another_magic_is_refused(bench: Bench) -> None:
    client = bench.connect(magic=b"  V2")

    assert client.reply() == b"E_BAD_PROTOCOL"
    client.expect_end()


def test_2_pings_before_identify(bench: Bench) -> None:
    bench.connect().expect_ok(b"PING\n", b"PING\n")


def test_3_white_space_and_extra_words_do_not_matter(bench: Bench) -> None:
    bench.connect().expect_ok(b"  PING  \r\n", b"\tPING\n", b"PING a b\n", b"PING\n")


@pytest.mark.parametrize(("line", "word"), [(b"ping\n", b"ping"), (b"\n", b"")])
def test_4_and_5_unknown_commands_end_the_connection(bench: Bench, line: bytes, word: bytes) -> None:
    client = bench.connect()

    assert client.ask(line) == [b"E_INVALID invalid command " + word]
    client.expect_end()


def test_6_what_follows_an_error_is_not_answered(bench: Bench) -> None:
    client = bench.connect()

    assert client.ask(b"PING\n", b"BAD\n", b"PING\n") == [b"OK", b"E_INVALID invalid command BAD", None]


def test_7_a_command_in_two_packets(bench: Bench) -> None:
    client = bench.connect()
    client.send(b"PIN")
    eventually(lambda: bench.lookupd.call(lambda daemon: daemon.peers.budget.total) == 3)

    client.expect_ok(b"G\n")


def test_8_a_node_without_a_host_name(bench: Bench) -> None:
    bench.connect().ask(identify(hostname=None))

    assert [node["hostname"] for node in bench.nodes()] == [""]


@pytest.mark.parametrize("port", [-1, 99_999_999])
def test_9_any_port_but_0_is_taken(bench: Bench, port: int) -> None:
    bench.nsqd(tcp_port=port)

    assert [node["tcp_port"] for node in bench.nodes()] == [port]


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (b'{"tcp_port":"1"}', b"failed to decode JSON body"),
        (b'{"tcp_port":1.5}', b"failed to decode JSON body"),
        (b'{"tcp_port":100.0}', b"failed to decode JSON body"),
        (b"null", b"missing fields"),
        (b"{}", b"missing fields"),
        (b"[]", b"failed to decode JSON body"),
        (b"{a}", b"failed to decode JSON body"),
        (b"", b"failed to decode JSON body"),
        (b"{} trailing", b"failed to decode JSON body"),
    ],
)
def test_10_to_12_bodies_that_are_refused(bench: Bench, body: bytes, text: bytes) -> None:
    client = bench.connect()

    assert client.ask(identify_with(body)) == [b"E_BAD_BODY IDENTIFY " + text]
    client.expect_end()
    assert bench.nodes() == []


def test_13_keys_in_another_case(bench: Bench) -> None:
    body = b'{"Broadcast_Address":"h9","TCP_PORT":1,"http_Port":2,"VERSION":"v"}'
    bench.connect().ask(identify_with(body))

    assert [node["broadcast_address"] for node in bench.nodes()] == ["h9"]


def test_14_the_remote_address_is_that_of_the_socket(bench: Bench) -> None:
    client = bench.nsqd(remote_address="1.2.3.4:5")

    assert [node["remote_address"] for node in bench.nodes()] == [client.local_address]


def test_15_words_behind_identify_are_ignored(bench: Bench) -> None:
    (reply,) = bench.connect().ask(identify().replace(b"IDENTIFY\n", b"IDENTIFY a b c\n"))

    assert reply is not None
    assert reply.startswith(b'{"broadcast_address":"127.0.0.1","hostname":')
    assert reply.endswith(
        b',"http_port":%d,"tcp_port":%d,"version":"1.3.0"}'
        % (bench.lookupd.http_port, bench.lookupd.tcp_port)
    )


@pytest.mark.parametrize("size", [-1, -(2**31), 2**31 - 1])
def test_16_a_negative_or_huge_size_harms_nobody(bench: Bench, size: int) -> None:
    client = bench.connect()

    replies = client.ask(b"IDENTIFY\n" + struct.pack(">i", size))

    assert replies == [b"E_BAD_BODY IDENTIFY failed to read body size"]
    client.expect_end()
    bench.connect().expect_ok(b"PING\n")


def test_17_a_second_identify_ends_the_peer(bench: Bench) -> None:
    client = bench.nsqd()

    assert client.ask(identify()) == [b"E_INVALID cannot IDENTIFY again"]
    client.expect_end()
    assert bench.nodes() == []


@pytest.mark.parametrize(
    ("line", "text"),
    [
        (b"REGISTER \n", b"E_INVALID REGISTER insufficient number of params"),
        (b"UNREGISTER\n", b"E_INVALID UNREGISTER insufficient number of params"),
        (b"REGISTER  ch\n", b"E_BAD_TOPIC REGISTER topic name '' is not valid"),
        (b"REGISTER t c*\n", b"E_BAD_CHANNEL REGISTER channel name 'c*' is not valid"),
    ],
)
def test_18_and_19_names_that_are_missing_or_wrong(bench: Bench, line: bytes, text: bytes) -> None:
    client = bench.nsqd()

    assert client.ask(line) == [text]
    client.expect_end()


def test_who_has_not_identified_registers_nothing(bench: Bench) -> None:
    client = bench.connect()

    assert client.ask(b"REGISTER t\n") == [b"E_INVALID client must IDENTIFY"]
    client.expect_end()


def test_20_an_empty_channel_is_none(bench: Bench) -> None:
    bench.nsqd().expect_ok(b"REGISTER t  c\n")

    assert (bench.topics(), bench.channels("t")) == (["t"], [])


def test_21_words_behind_the_channel_are_ignored(bench: Bench) -> None:
    bench.nsqd().expect_ok(b"REGISTER t c extra\n")

    assert (bench.topics(), bench.channels("t")) == (["t"], ["c"])


@pytest.mark.parametrize("name", [LONG, "x" * 54 + "#ephemeral"])
def test_22_and_23_names_may_have_64_bytes(bench: Bench, name: str) -> None:
    client = bench.nsqd()
    client.expect_ok(f"REGISTER {name}\n".encode())

    (reply,) = client.ask(f"REGISTER x{name}\n".encode())

    assert reply is not None
    assert reply.startswith(b"E_BAD_TOPIC REGISTER topic name 'x")


def test_24_what_is_not_registered_may_be_unregistered(bench: Bench) -> None:
    bench.nsqd().expect_ok(b"UNREGISTER nosuch\n", b"UNREGISTER nosuch ch\n")


def test_25_an_ephemeral_channel_goes_with_its_last_nsqd(bench: Bench) -> None:
    first, second = bench.nsqd("h1"), bench.nsqd("h2")
    for client in (first, second):
        client.expect_ok(b"REGISTER evt c#ephemeral\n")

    first.expect_ok(b"UNREGISTER evt c#ephemeral\n")
    assert bench.channels("evt") == ["c#ephemeral"]
    second.expect_ok(b"UNREGISTER evt c#ephemeral\n")
    assert bench.channels("evt") == []


def test_26_channels_of_an_ephemeral_topic_outlive_it(bench: Bench) -> None:
    bench.nsqd().expect_ok(b"REGISTER et#ephemeral c9\n", b"UNREGISTER et#ephemeral\n")

    assert bench.refused("GET", "/lookup?topic=et%23ephemeral") == (404, "TOPIC_NOT_FOUND")
    assert bench.channels("et%23ephemeral") == ["c9"]


def test_27_ephemeral_channels_outlive_the_unregistering_of_their_topic(bench: Bench) -> None:
    bench.nsqd().expect_ok(b"REGISTER ut c#ephemeral\n", b"UNREGISTER ut\n")

    assert bench.channels("ut") == ["c#ephemeral"]


def test_28_names_outlive_a_disconnect(bench: Bench) -> None:
    client = bench.nsqd()
    client.expect_ok(b"REGISTER t#ephemeral c#ephemeral\n")

    client.close()
    eventually(lambda: bench.nodes() == [])

    assert (bench.topics(), bench.channels("t%23ephemeral")) == (["t#ephemeral"], ["c#ephemeral"])


def test_29_a_topic_without_producers_is_found(bench: Bench) -> None:
    bench.nsqd().expect_ok(b"REGISTER t c\n", b"UNREGISTER t\n")

    assert bench.http.get("/lookup?topic=t").body == b'{"channels":["c"],"producers":[]}'


# HTTP -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("target", "refusal"),
    [
        ("/lookup?topic=", (404, "TOPIC_NOT_FOUND")),
        ("/lookup?topic", (404, "TOPIC_NOT_FOUND")),
        ("/lookup?TOPIC=x", (400, "MISSING_ARG_TOPIC")),
        ("/lookup", (400, "MISSING_ARG_TOPIC")),
        ("/channels", (400, "MISSING_ARG_TOPIC")),
        ("/lookup?topic=%zz", (400, "INVALID_REQUEST")),
        ("/lookup?topic=a;b", (400, "INVALID_REQUEST")),
        ("/nosuch", (404, "NOT_FOUND")),
        ("/debug/pprof", (404, "NOT_FOUND")),
    ],
)
def test_30_to_32_questions_that_are_refused(bench: Bench, target: str, refusal: tuple[int, str]) -> None:
    assert bench.refused("GET", target) == refusal


def test_33_form_bodies_are_ignored(bench: Bench) -> None:
    assert bench.refused("POST", "/topic/create", b"topic=zz") == (400, "MISSING_ARG_TOPIC")


def test_34_the_first_value_counts(bench: Bench) -> None:
    bench.post("/topic/create?topic=a&topic=b")

    assert bench.topics() == ["a"]


@pytest.mark.parametrize("name", ["abc%0A", "%C3%A9", "a+b", "x" * 65, "", "*"])
def test_35_wrong_names_are_not_created(bench: Bench, name: str) -> None:
    assert bench.refused("POST", f"/topic/create?topic={name}") == (400, "INVALID_ARG_TOPIC")
    assert bench.refused("POST", f"/channel/create?topic={name}") == (400, "INVALID_ARG_TOPIC")
    assert bench.refused("POST", "/channel/create?topic=t") == (400, "MISSING_ARG_CHANNEL")
    assert bench.refused("POST", f"/channel/create?topic=t&channel={name}") == (400, "INVALID_ARG_CHANNEL")
    assert bench.topics() == []


@pytest.mark.parametrize("name", [".", "-_.", LONG])
def test_35_odd_names_are_created(bench: Bench, name: str) -> None:
    bench.post(f"/topic/create?topic={name}")

    assert bench.topics() == [name]


def test_36_an_ephemeral_channel_is_there_until_an_nsqd_unregisters_it(bench: Bench) -> None:
    bench.post("/channel/create?topic=n2&channel=c%23ephemeral")
    assert (bench.topics(), bench.channels("n2")) == (["n2"], ["c#ephemeral"])

    bench.nsqd().expect_ok(b"UNREGISTER n2 c#ephemeral\n")

    assert bench.channels("n2") == []


def test_37_what_is_not_there_is_not_deleted(bench: Bench) -> None:
    assert bench.refused("POST", "/channel/delete?topic=t&channel=c") == (404, "CHANNEL_NOT_FOUND")
    bench.post("/topic/delete?topic=nosuch")
    bench.post("/topic/delete?topic=%21")


def test_a_channel_is_deleted(bench: Bench) -> None:
    bench.nsqd().expect_ok(b"REGISTER t c\n")

    bench.post("/channel/delete?topic=t&channel=c")

    assert bench.channels("t") == []


def test_38_a_tombstone_needs_the_http_port(bench: Bench) -> None:
    bench.nsqd().expect_ok(b"REGISTER t\n")

    bench.post("/topic/tombstone?topic=t&node=h1:4150")
    assert bench.producers("t") == ["h1"]
    assert bench.refused("POST", "/topic/tombstone?node=h1:4151") == (400, "MISSING_ARG_TOPIC")
    assert bench.refused("POST", "/topic/tombstone?topic=t") == (400, "MISSING_ARG_NODE")


def test_39_a_tombstone_outlives_another_register(bench: Bench) -> None:
    client = bench.nsqd()
    client.expect_ok(b"REGISTER t\n")
    bench.post("/topic/tombstone?topic=t&node=h1:4151")

    client.expect_ok(b"REGISTER t\n")
    assert bench.producers("t") == []
    client.expect_ok(b"UNREGISTER t\n", b"REGISTER t\n")
    assert bench.producers("t") == ["h1"]


def test_40_a_tombstone_expires(bench: Bench) -> None:
    bench.nsqd().expect_ok(b"REGISTER t\n")
    bench.post("/topic/tombstone?topic=t&node=h1:4151")

    bench.clock.advance_ms(44_999)
    assert bench.producers("t") == []
    bench.clock.advance_ms(2)

    assert bench.producers("t") == ["h1"]
    assert bench.http.get_json("/debug")["topic:t:"][0]["tombstoned"] is True
    assert bench.nodes()[0]["tombstones"] == [False]


def test_41_a_tombstoned_node_is_among_the_nodes(bench: Bench) -> None:
    bench.nsqd().expect_ok(b"REGISTER t\n", b"REGISTER u\n")
    assert bench.nodes()[0]["tombstones"] == [False, False]

    bench.post("/topic/tombstone?topic=t&node=h1:4151")

    (node,) = bench.nodes()
    assert (node["topics"], node["tombstones"]) == (["t", "u"], [True, False])


def test_42_both_connections_of_a_node_are_tombstoned(bench: Bench) -> None:
    for _ in range(2):
        bench.nsqd().expect_ok(b"REGISTER t\n")
    assert bench.producers("t") == ["h1", "h1"]

    bench.post("/topic/tombstone?topic=t&node=h1:4151")

    assert bench.producers("t") == []


def test_43_a_silent_nsqd_is_left_out_until_it_pings(bench: Bench) -> None:
    client = bench.nsqd()
    client.expect_ok(b"REGISTER t\n")

    bench.clock.advance_ms(300_001)
    assert (bench.producers("t"), bench.nodes(), bench.topics()) == ([], [], ["t"])
    client.expect_ok(b"PING\n")

    assert (bench.producers("t"), len(bench.nodes())) == (["h1"], 1)


def test_44_a_deleted_topic_comes_back_when_it_is_registered(bench: Bench) -> None:
    client = bench.nsqd()
    client.expect_ok(b"REGISTER t c\n")

    bench.post("/topic/delete?topic=t")
    client.expect_ok(b"PING\n")
    assert bench.refused("GET", "/lookup?topic=t") == (404, "TOPIC_NOT_FOUND")
    assert len(bench.nodes()) == 1
    client.expect_ok(b"REGISTER t\n")

    assert bench.producers("t") == ["h1"]


@pytest.mark.parametrize("path", ["/TOPICS", "/topics/", "//topics", "/x/../topics"])
def test_45_sloppy_paths_are_redirected(bench: Bench, path: str) -> None:
    answer = bench.http.get(path)

    assert (answer.status, answer.headers["location"]) == (301, "/topics")


def test_45_sloppy_posts_are_redirected(bench: Bench) -> None:
    answer = bench.http.post("/topic/create/?topic=q")

    assert (answer.status, answer.headers["location"]) == (307, "/topic/create?topic=q")


def test_46_other_methods(bench: Bench) -> None:
    assert bench.http.ask("HEAD", "/topics").status == 405
    assert bench.refused("POST", "/topics") == (405, "METHOD_NOT_ALLOWED")
    assert bench.http.ask("OPTIONS", "/topics").headers["allow"] == "GET, OPTIONS"
    assert bench.http.ask("OPTIONS", "/topic/create").headers["allow"] == "OPTIONS, POST"


@pytest.mark.parametrize("action", ["delete?topic=*", "delete?topic=%2A", "tombstone?topic=*&node=h1:4151"])
def test_47_nothing_is_done_to_all_topics_at_once(bench: Bench, action: str) -> None:
    bench.nsqd().expect_ok(b"REGISTER t c\n")

    assert bench.refused("POST", f"/topic/{action}") == (400, "INVALID_ARG_TOPIC")

    assert (bench.producers("t"), bench.channels("t")) == (["h1"], ["c"])
    assert bench.channels("*") == []
    assert bench.refused("GET", "/lookup?topic=*") == (404, "TOPIC_NOT_FOUND")


def test_48_a_signal_ends_every_connection_and_the_exit_code_is_0(tmp_path: Path) -> None:
    log = tmp_path / "log"
    flags = ["--tcp-address=127.0.0.1:0", "--http-address=127.0.0.1:0", "--log-level=debug"]
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "nsqlake.apps.nsqlookupd", *flags], stdout=output, stderr=output
        )
    try:
        wait_for(lambda: "HTTP: listening" in log.read_text())
        address = re.search(r"TCP: listening on (\S+)", log.read_text())
        assert address is not None
        with LookupClient(address[1]) as peer, LookupClient(address[1], magic=b"") as silent:
            peer.identify()
            process.send_signal(signal.SIGTERM)

            peer.expect_end()
            silent.expect_end()
            assert process.wait(10) == 0
        assert "TCP: new client(" in log.read_text()
    finally:
        process.kill()
        process.wait()


def test_50_nsqlookupd_never_contacts_an_nsqd(bench: Bench) -> None:
    client = bench.nsqd()
    client.expect_ok(b"REGISTER t c\n")

    bench.post("/topic/delete?topic=t")
    bench.post("/topic/create?topic=t")

    client.expect_ok(b"PING\n")


# Shapes -----------------------------------------------------------------------------------------------


def test_the_headers_and_bodies_of_the_small_answers(bench: Bench) -> None:
    ping, info, topics = (bench.http.get(path) for path in ("/ping", "/info", "/topics"))

    assert (ping.body, info.body, topics.body) == (b"OK", b'{"version":"1.3.0"}', b'{"topics":[]}')
    assert "x-nsq-content-type" not in ping.headers
    assert info.headers["x-nsq-content-type"] == "nsq; version=1.0"
    assert info.headers["content-type"] == "application/json; charset=utf-8"
    created = bench.http.post("/topic/create?topic=t")
    assert created.headers["content-length"] == "0"
    assert "content-type" not in created.headers


def test_a_producer_has_its_keys_in_nsqs_order(bench: Bench) -> None:
    client = bench.nsqd(topology_zone="z", topology_region="r", version="<1>")
    client.expect_ok(b"REGISTER t c\n")

    body = bench.http.get("/lookup?topic=t").body.decode()

    shown = (
        f'"remote_address":"{client.local_address}","hostname":"host","broadcast_address":"h1","tcp_port":4150,'
        '"http_port":4151,"version":"\\u003c1\\u003e","topology_zone":"z","topology_region":"r"'
    )
    assert body == f'{{"channels":["c"],"producers":[{{{shown}}}]}}'
    nodes = bench.http.get("/nodes").body.decode()
    assert nodes == f'{{"producers":[{{{shown},"tombstones":[false],"topics":["t"]}}]}}'


def test_a_node_without_topics_has_empty_lists(bench: Bench) -> None:
    bench.nsqd()

    assert (bench.nodes()[0]["tombstones"], bench.nodes()[0]["topics"]) == ([], [])


def test_the_database_is_shown_with_what_has_a_peer(bench: Bench) -> None:
    assert bench.http.get("/debug").body == b"{}"
    client = bench.nsqd()
    client.expect_ok(b"REGISTER t c\n")
    bench.post("/topic/create?topic=lonely")

    shown = bench.http.get_json("/debug")

    assert list(shown) == ["channel:t:c", "client::", "topic:t:"]
    assert shown["client::"] == [
        {
            "broadcast_address": "h1",
            "hostname": "host",
            "http_port": 4151,
            "id": client.local_address,
            "last_update": bench.clock.now_ns(),
            "tcp_port": 4150,
            "tombstoned": False,
            "tombstoned_at": -6795364578871345152,
            "topology_region": "",
            "topology_zone": "",
            "version": "1.3.0",
        }
    ]
    assert list(bench.http.get_json("/debug?topic=none")) == ["client::"]
