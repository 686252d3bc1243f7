"""The same behaviour over every transport and every layer."""

import ssl
from collections.abc import Callable, Iterator

import pytest

from nsqlake.testing.nsqd import NsqdFixture, running_nsqd
from nsqlake.wire import commands
from tests.fakes.certificates import CertificateAuthority
from tests.fakes.tcp_client import TcpClient
from tests.fakes.tls_client import client_context
from tests.integration.conftest import Connect
from tests.integration.support import eventually, figures

UNIX = "unix"
LAYERS = {
    "tcp": {},
    UNIX: {},
    "tls": {"tls_v1": True},
    "deflate": {"deflate": True},
    "snappy": {"snappy": True},
    "tls+deflate": {"tls_v1": True, "deflate": True},
    "tls+snappy": {"tls_v1": True, "snappy": True},
    "unix+tls+snappy": {"tls_v1": True, "snappy": True},
}

Open = Callable[[], TcpClient]


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> CertificateAuthority:
    return CertificateAuthority(str(tmp_path_factory.mktemp("certificates")))


@pytest.fixture(scope="module")
def daemons(
    authority: CertificateAuthority, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[bool, NsqdFixture]]:
    """One on TCP, and, under True, one on a unix socket."""
    pair = authority.issue_server()
    tls = {"tls_cert": pair.cert_file, "tls_key": pair.key_file}
    path = str(tmp_path_factory.mktemp("socket") / "nsqd")
    with running_nsqd(**tls) as on_tcp, running_nsqd(tcp_address=path, **tls) as on_unix:
        yield {False: on_tcp, True: on_unix}


@pytest.fixture(params=LAYERS)
def transport(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
def nsqd(daemons: dict[bool, NsqdFixture], transport: str) -> NsqdFixture:
    return daemons[UNIX in transport]


@pytest.fixture(scope="module")
def context(authority: CertificateAuthority) -> ssl.SSLContext:
    return client_context(authority.ca_file)


@pytest.fixture
def open_client(nsqd: NsqdFixture, transport: str, context: ssl.SSLContext, connect: Connect) -> Open:
    def open_client() -> TcpClient:
        client = connect(nsqd)
        client.identify(context, **LAYERS[transport])
        return client

    return open_client


@pytest.fixture
def client(open_client: Open) -> TcpClient:
    return open_client()


def test_message_goes_through_and_is_finished(nsqd: NsqdFixture, client: TcpClient, topic: str) -> None:
    client.pub(topic, b"body")
    client.sub(topic, "channel", 1)

    message = client.message()
    client.fin(message)

    assert (message.body, message.attempts) == (b"body", 1)
    eventually(lambda: figures(nsqd, topic, "channel")[:2] == (0, 0))


def test_many_messages_of_one_size_go_through(nsqd: NsqdFixture, open_client: Open, topic: str) -> None:
    producer, consumer = open_client(), open_client()
    bodies = [b"%06d" % number * 20 for number in range(3000)]
    consumer.sub(topic, "channel", 2500)

    producer.mpub(topic, bodies)
    received = []
    for _ in range(30):
        batch = consumer.messages(100)
        received += [message.body for message in batch]
        consumer.fin(*batch)

    assert received == bodies
    eventually(lambda: figures(nsqd, topic, "channel")[:2] == (0, 0))


def test_messages_of_all_sizes_go_through(open_client: Open, topic: str) -> None:
    producer, consumer = open_client(), open_client()
    bodies = [
        bytes([size % 251]) * size
        for size in (1, 2, 63, 64, 1000, 16_384, 65_536, 65_537, 300_000, 1_048_576)
    ]

    producer.send(*(commands.pub(topic, body) for body in bodies))
    for _ in bodies:
        producer.expect_ok()
    consumer.sub(topic, "channel", 100)

    assert [message.body for message in consumer.messages(len(bodies))] == bodies


def test_pipelined_publishes_are_answered_in_order(client: TcpClient, topic: str) -> None:
    client.send(*[commands.pub(topic, b"x")] * 500, b"FOO\n")

    for _ in range(500):
        client.expect_ok()
    client.expect_fatal("E_INVALID invalid command FOO")


def test_bytes_may_come_one_by_one(client: TcpClient, topic: str) -> None:
    for byte in commands.pub(topic, b"slow"):
        client.send(bytes([byte]))

    client.expect_ok()


def test_error_that_is_not_fatal_leaves_the_connection(client: TcpClient, topic: str) -> None:
    client.sub(topic, "channel")

    client.send(commands.fin(b"0123456789abcdef"))

    assert client.error() == "E_FIN_FAILED FIN 0123456789abcdef failed ID not in flight"
    client.expect_nothing_so_far()


def test_fatal_error_is_read_whole_although_more_was_sent(client: TcpClient, topic: str) -> None:
    client.send(b"PUB %b\n" % topic.encode(), b"\xff" * 4, b"x" * 300_000)

    client.expect_fatal("E_BAD_MESSAGE PUB invalid message body size -1")


def test_requeued_and_closed(client: TcpClient, topic: str) -> None:
    client.pub(topic, b"x")
    client.sub(topic, "channel", 1)

    client.req(client.message())
    again = client.message()
    client.fin(again)
    client.send(commands.cls())

    assert again.attempts == 2
    client.expect_close_wait()


def test_consumer_that_leaves_gives_back(nsqd: NsqdFixture, open_client: Open, topic: str) -> None:
    leaving, staying = open_client(), open_client()
    leaving.sub(topic, "channel", 10)
    staying.pub(topic, b"1", b"2")
    leaving.messages(2)

    leaving.close()
    staying.sub(topic, "channel", 10)

    assert [message.attempts for message in staying.messages(2)] == [2, 2]


def test_deleted_channel_ends_the_connection(nsqd: NsqdFixture, client: TcpClient, topic: str) -> None:
    client.sub(topic, "channel", 1)

    nsqd.call(lambda daemon: daemon.broker.delete_channel(daemon.broker.topics[topic].channels["channel"]))

    client.expect_end()


def test_heartbeats_come_through_every_layer(
    daemons: dict[bool, NsqdFixture], context: ssl.SSLContext, connect: Connect
) -> None:
    clients = []
    for transport, layers in LAYERS.items():
        client = connect(daemons[UNIX in transport])
        client.identify(context, heartbeat_interval=1000, **layers)
        clients.append(client)

    for client in clients:
        client.heartbeat()
