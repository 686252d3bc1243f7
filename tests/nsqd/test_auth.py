"""`AuthServers` against a real server on loopback."""

import asyncio
import logging
import random
import socket
from collections.abc import Awaitable, Callable

import pytest
from cryptography import x509

from nsqlake.nsqd.auth import AuthError, AuthServers, AuthState
from nsqlake.nsqd.options import NsqdOptions
from nsqlake.runtime.errors import StartupError
from nsqlake.testing.clock import START_NS, ManualClock
from tests.fakes.auth_server import EVERYTHING, FakeAuthServer
from tests.fakes.certificates import CertificateAuthority

SECRET = b"sec ret&="


class FixedRandom(random.Random):
    """Starts with the server the test wants."""

    def __init__(self, start: int) -> None:
        super().__init__()
        self._start = start

    def randrange(self, start: int, stop: int | None = None, step: int = 1) -> int:
        return self._start % start


def new_servers(*addresses: str, start: int = 0, **options: object) -> AuthServers:
    return AuthServers(addresses, clock=ManualClock(), random_source=FixedRandom(start), **options)


async def ask(servers: AuthServers, secret: bytes = SECRET, **fields: object) -> AuthState:
    fields = {"remote_ip": "10.0.0.7", "common_name": "cn", "is_tls": True} | fields
    try:
        return await servers.query(secret, **fields)
    finally:
        await servers.close()


def run_with_server(
    scenario: Callable[[FakeAuthServer], Awaitable[None]], **options: object
) -> FakeAuthServer:
    async def run() -> FakeAuthServer:
        async with FakeAuthServer(**options) as server:
            await scenario(server)
            return server

    return asyncio.run(run())


@pytest.fixture
def authority(tmp_path) -> CertificateAuthority:
    return CertificateAuthority(str(tmp_path / "authority"))


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def test_post_sends_arrays_in_json_and_no_secret_in_the_url():
    async def scenario(server: FakeAuthServer) -> None:
        state = await ask(new_servers(server.address))
        assert (state.identity, state.permission_count) == ("me", 1)
        assert state.is_allowed("t", "c", "subscribe")
        assert state.expires_ns == START_NS + 60_000_000_000

    (request,) = run_with_server(scenario).requests

    assert (request.method, request.target) == ("POST", "/auth")
    assert request.body == (
        b'{"common_name":["cn"],"remote_ip":["10.0.0.7"],"secret":["sec ret&="],"tls":["true"]}'
    )
    assert request.headers["accept"] == "application/vnd.nsq; version=1.0"
    assert request.headers["content-type"] == "application/json"


def test_get_sends_sorted_form_fields():
    async def scenario(server: FakeAuthServer) -> None:
        await ask(new_servers(server.address, method="get"), common_name="", is_tls=False)

    (request,) = run_with_server(scenario).requests

    assert request.method == "GET"
    assert request.target == "/auth?common_name=&remote_ip=10.0.0.7&secret=sec+ret%26%3D&tls=false"
    assert request.headers["accept"] == "application/vnd.nsq; version=1.0"
    assert request.body == b""


def test_get_appends_a_question_mark_to_any_url():
    async def scenario(server: FakeAuthServer) -> None:
        await ask(new_servers(f"http://{server.address}/who?realm=x", method="get"))

    (request,) = run_with_server(scenario).requests

    assert request.target.startswith("/who?realm=x?common_name=cn&remote_ip=")


def test_a_secret_may_be_any_bytes():
    async def scenario(server: FakeAuthServer) -> None:
        await ask(new_servers(server.address), b"\xff\0\n")
        await ask(new_servers(server.address, method="get"), b"\xff\0\n")

    post, get = run_with_server(scenario).requests

    assert post.fields["secret"] == ["\N{REPLACEMENT CHARACTER}\0\n"]
    assert "secret=%FF%00%0A&" in get.target


def test_servers_are_asked_in_turn_from_a_random_one_on():
    async def scenario() -> list[int]:
        async with FakeAuthServer() as first, FakeAuthServer() as second, FakeAuthServer() as third:
            second.status = 500
            third.reply = b"nonsense"
            servers = new_servers(first.address, second.address, third.address, start=1)
            assert (await ask(servers)).identity == "me"
            return [len(server.requests) for server in (first, second, third)]

    assert asyncio.run(scenario()) == [1, 1, 1]


def test_the_first_valid_reply_ends_the_search():
    async def scenario() -> list[int]:
        async with FakeAuthServer() as first, FakeAuthServer() as second:
            await ask(new_servers(first.address, second.address, start=1))
            return [len(server.requests) for server in (first, second)]

    assert asyncio.run(scenario()) == [0, 1]


def test_a_server_that_is_down_is_passed_over(caplog):
    down = f"127.0.0.1:{free_port()}"

    async def scenario(server: FakeAuthServer) -> None:
        assert (await ask(new_servers(down, server.address))).identity == "me"

    run_with_server(scenario)

    assert f"AUTH(http://{down}/auth): query failed reason=cannot connect" in caplog.text


def test_without_any_server_nobody_is_let_in():
    with pytest.raises(AuthError) as failure:
        asyncio.run(ask(new_servers(f"127.0.0.1:{free_port()}")))

    assert not failure.value.is_refusal


@pytest.mark.parametrize(
    ("status", "is_refusal"),
    [(201, False), (302, False), (401, True), (403, True), (404, False), (500, False)],
)
def test_any_status_but_200_fails(status, is_refusal):
    async def scenario(server: FakeAuthServer) -> None:
        server.status = status
        server.headers = f"Location: http://{server.address}/auth\r\n"
        with pytest.raises(AuthError) as failure:
            await ask(new_servers(server.address))
        assert failure.value.is_refusal is is_refusal

    assert len(run_with_server(scenario).requests) == 1


@pytest.mark.parametrize(
    "reply",
    [b"", b"nonsense", {"ttl": 0}, {"ttl": 60, "authorizations": [EVERYTHING | {"topic": "(?=x)"}]}],
)
def test_an_invalid_reply_fails(reply, caplog):
    async def scenario(server: FakeAuthServer) -> None:
        server.reply = reply
        with pytest.raises(AuthError):
            await ask(new_servers(server.address))

    run_with_server(scenario)

    assert "query failed reason=invalid reply: " in caplog.text


def test_a_reply_without_authorizations_is_an_answer():
    async def scenario(server: FakeAuthServer) -> None:
        server.reply = {"ttl": 60, "authorizations": []}
        assert (await ask(new_servers(server.address))).permission_count == 0

    run_with_server(scenario)


def test_an_endless_reply_is_cut_off(caplog):
    async def scenario(server: FakeAuthServer) -> None:
        server.reply = b" " * 1_000_000
        with pytest.raises(AuthError):
            await ask(new_servers(server.address))

    run_with_server(scenario)

    assert "reason=reply larger than 262144 bytes" in caplog.text


def test_a_compressed_reply_is_not_unpacked(caplog):
    async def scenario(server: FakeAuthServer) -> None:
        server.headers = "Content-Encoding: gzip\r\n"
        with pytest.raises(AuthError):
            await ask(new_servers(server.address))

    run_with_server(scenario)

    assert "reason=compressed reply" in caplog.text


def test_a_silent_server_is_given_up_on_time(caplog):
    async def scenario(server: FakeAuthServer) -> None:
        server.is_silent = True
        with pytest.raises(AuthError):
            await ask(new_servers(server.address, request_timeout_ns=20_000_000))

    run_with_server(scenario)

    assert "reason=no reply within 0.02 s" in caplog.text


def test_a_server_that_does_not_speak_http_fails(caplog):
    async def scenario() -> None:
        async def chatter(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"]}")
            writer.write(b"sec ret&= is not HTTP\r\n\r\n")
            writer.close()

        server = await asyncio.start_server(chatter, "127.0.0.1", 0)
        async with server:
            port = server.sockets[0].getsockname()[1]
            with pytest.raises(AuthError):
                await ask(new_servers(f"127.0.0.1:{port}"))

    asyncio.run(scenario())

    assert "reason=RemoteProtocolError" in caplog.text
    assert "sec ret" not in caplog.text


@pytest.mark.parametrize("address", ["http://127.0.0.1:99999999/auth", "gopher://127.0.0.1/", "http://\0/"])
def test_an_impossible_address_fails(address):
    with pytest.raises(AuthError):
        asyncio.run(ask(new_servers(address)))


@pytest.mark.parametrize("method", ["get", "post"])
def test_a_403_that_names_an_https_port_is_asked_again_there(authority, method):
    async def scenario() -> None:
        async with FakeAuthServer(authority.issue_server()) as secure, FakeAuthServer() as plain:
            plain.status, plain.reply = 403, {"https_port": secure.port}
            servers = new_servers(plain.address, method=method, root_ca_file=authority.ca_file)
            assert (await ask(servers)).identity == "me"
            (first,), (second,) = plain.requests, secure.requests
            assert (first.method, first.target, first.body) == (second.method, second.target, second.body)
            assert second.fields["secret"] == ["sec ret&="]

    asyncio.run(scenario())


@pytest.mark.parametrize(
    "reply", [{"https_port": 0}, {"https_port": "1"}, {"https_port": True}, [], b"nonsense"]
)
def test_a_403_without_a_usable_port_is_a_refusal(reply):
    async def scenario(server: FakeAuthServer) -> None:
        server.status, server.reply = 403, reply
        with pytest.raises(AuthError) as failure:
            await ask(new_servers(server.address))
        assert failure.value.is_refusal

    assert len(run_with_server(scenario).requests) == 1


def test_a_403_over_https_is_final(authority):
    async def scenario(server: FakeAuthServer) -> None:
        server.status, server.reply = 403, {"https_port": server.port}
        with pytest.raises(AuthError):
            await ask(new_servers(f"https://{server.address}/auth", root_ca_file=authority.ca_file))

    assert len(run_with_server(scenario, pair=authority.issue_server()).requests) == 1


def test_a_certificate_of_another_authority_is_not_trusted(authority, tmp_path, caplog):
    stranger = CertificateAuthority(str(tmp_path / "stranger"), "stranger")

    async def scenario(server: FakeAuthServer) -> None:
        for root_ca_file in (authority.ca_file, ""):
            with pytest.raises(AuthError):
                await ask(new_servers(f"https://{server.address}/auth", root_ca_file=root_ca_file))

    assert run_with_server(scenario, pair=stranger.issue_server()).requests == []
    assert caplog.text.count("CERTIFICATE_VERIFY_FAILED") == 2


def test_a_certificate_for_another_host_is_not_trusted(authority):
    pair = authority.issue_server(names=[x509.DNSName("elsewhere.example")])

    async def scenario(server: FakeAuthServer) -> None:
        with pytest.raises(AuthError):
            await ask(new_servers(f"https://{server.address}/auth", root_ca_file=authority.ca_file))

    assert run_with_server(scenario, pair=pair).requests == []


def test_a_root_file_without_certificates_stops_the_start(tmp_path):
    junk = tmp_path / "junk"
    junk.write_text("junk")

    with pytest.raises(StartupError, match="failed to append certificate to pool"):
        new_servers("127.0.0.1:1", root_ca_file=str(junk))


@pytest.mark.parametrize("method", ["get", "post"])
def test_secrets_are_in_no_log_line_and_no_error(method, caplog):
    caplog.set_level(logging.DEBUG)

    async def scenario(server: FakeAuthServer) -> None:
        address = f"http://operator:hunter2@{server.address}/auth?token=hunter2"
        await ask(new_servers(address, method=method), b"topsecret")
        server.status = 500
        with pytest.raises(AuthError) as failure:
            await ask(new_servers(address, method=method), b"topsecret")
        assert "topsecret" not in str(failure.value)

    server = run_with_server(scenario)

    assert "topsecret" not in caplog.text
    assert "hunter2" not in caplog.text
    assert f"AUTH(http://{server.address}/auth): query failed reason=status 500" in caplog.text


def test_an_oversized_secret_is_refused_without_asking():
    async def scenario(server: FakeAuthServer) -> None:
        with pytest.raises(AuthError, match="secret longer than 65536 bytes"):
            await ask(new_servers(server.address), b"x" * 65_537)

    assert run_with_server(scenario).requests == []


def test_an_address_that_keeps_failing_is_no_longer_asked_about():
    async def scenario(server: FakeAuthServer) -> None:
        servers = new_servers(server.address)
        server.status = 403
        for _ in range(10):
            with pytest.raises(AuthError):
                await ask(servers)
        server.status = 200
        with pytest.raises(AuthError, match=r"too many failures of 10\.0\.0\.7, to wait 1000 ms"):
            await ask(servers)
        assert (await ask(servers, remote_ip="10.0.0.8")).identity == "me"

    assert len(run_with_server(scenario).requests) == 11


def test_a_client_without_authorizations_counts_as_a_failure_and_success_clears_it():
    async def scenario(server: FakeAuthServer) -> None:
        servers = new_servers(server.address)
        good = server.reply
        for _ in range(3):
            server.reply = {"ttl": 60, "authorizations": []}
            for _ in range(9):
                await ask(servers)
            server.reply = good
            await ask(servers)

    assert len(run_with_server(scenario).requests) == 30


def test_an_auth_server_that_is_down_is_not_the_fault_of_the_client():
    async def scenario(server: FakeAuthServer) -> None:
        servers = new_servers(server.address)
        server.status = 500
        for _ in range(20):
            with pytest.raises(AuthError):
                await ask(servers)
        server.status = 200
        assert (await ask(servers)).identity == "me"

    run_with_server(scenario)


def test_options_of_the_daemon_are_taken_and_replies_expire():
    async def scenario(server: FakeAuthServer) -> None:
        clock = ManualClock()
        options = NsqdOptions(auth_http_addresses=(server.address,), auth_http_request_method="get")
        servers = AuthServers.from_options(options, clock)
        state = await ask(servers)
        clock.advance_ms(59_999)
        assert not servers.is_expired(state)
        clock.advance_ms(1)
        assert servers.is_expired(state)

    assert run_with_server(scenario).requests[0].method == "GET"
