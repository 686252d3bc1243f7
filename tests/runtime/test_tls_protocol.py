"""HTTPS on both loops."""

import asyncio
import os
import random
import ssl

import pytest

from nsqlake.runtime.tls_context import TlsContextHolder, build_server_context
from tests.fakes.certificates import CertificateAuthority
from tests.fakes.http_client import request_bytes
from tests.fakes.loop_turns import wait_until
from tests.fakes.tls_client import client_context
from tests.runtime.http.support import LOOPS, OK, Running, scenario_on


@pytest.fixture(scope="module")
def authority(tmp_path_factory) -> CertificateAuthority:
    return CertificateAuthority(str(tmp_path_factory.mktemp("authority")))


@pytest.fixture(params=list(LOOPS))
def serve(request, authority):
    pair = authority.issue_server()

    def run(scenario, policy: str = "") -> None:
        tls = TlsContextHolder(
            lambda: build_server_context(
                pair.cert_file, pair.key_file, client_auth_policy=policy, root_ca_file=authority.ca_file
            )
        )
        scenario_on(request.param, scenario, tls=tls, name="HTTPS")

    return run


@pytest.fixture
def context(authority) -> ssl.SSLContext:
    return client_context(authority.ca_file)


def test_requests_are_served_and_known_to_have_come_by_tls(serve, context):
    async def scenario(running: Running) -> None:
        client = await running.connect(context=context)
        for size in (1, 1_000):
            assert (await client.ask("POST", "/echo", b"x" * size)).body == b"x" * size
        assert [request.is_tls for request in running.site.seen] == [True, True]
        assert running.site.seen[0].remote_address.startswith("127.0.0.1:")
        assert len(running.server.connections) == 1

    serve(scenario)


def test_the_common_name_of_the_client_is_known(serve, authority):
    pair = authority.issue_client("reporter")

    async def scenario(running: Running) -> None:
        client = await running.connect(context=client_context(authority.ca_file, pair))
        await client.ask("POST", "/echo", b"x")
        assert running.site.seen[0].common_name == "reporter"

    serve(scenario, policy="require-verify")


def test_a_client_without_the_certificate_it_needs_is_refused(serve, context):
    async def scenario(running: Running) -> None:
        with pytest.raises((ssl.SSLError, asyncio.IncompleteReadError, ConnectionError)):
            await (await running.connect(context=context)).ask("GET", "/ping")
        await wait_until(lambda: not running.server.connections)
        assert running.listener.open_count == 0

    serve(scenario, policy="require-verify")


@pytest.mark.parametrize("size", [100_000, 140_000, 200_000, 3_000_000])
def test_large_bodies_go_both_ways_behind_a_request_that_takes_time(serve, context, size):
    body = (bytes(range(256)) * 12_000)[:size]

    async def scenario(running: Running) -> None:
        client = await running.connect(context=context)
        client.send(request_bytes("POST", "/later") + request_bytes("POST", "/big", body))
        await wait_until(lambda: bool(running.site.laters))
        (connection,) = running.server.connections
        await wait_until(lambda: not connection._is_reading)
        running.site.laters[0].resolve(OK)
        assert (await client.answer()).body == b"OK"
        assert (await client.answer()).body == body

    serve(scenario)


def test_a_refused_client_can_read_why(serve, context):
    async def scenario(running: Running) -> None:
        client = await running.connect(context=context)
        client.send(b"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 300000\r\n\r\n" + b"x" * 100_000)
        assert (await client.answer()).status == 413
        assert await client.rest() == b""
        await client.close()
        await wait_until(lambda: not running.server.connections)

    serve(scenario)


def test_a_plain_request_is_told_that_this_is_https(serve):
    async def scenario(running: Running) -> None:
        client = await running.connect()
        client.send(request_bytes("GET", "/ping"))
        assert b"Client sent an HTTP request to an HTTPS server." in await client.rest()

    serve(scenario)


def test_a_handshake_has_five_seconds(serve):
    async def scenario(running: Running) -> None:
        client = await running.connect()
        await wait_until(lambda: bool(running.server.connections))
        running.server.sweep(4)
        assert len(running.server.connections) == 1
        running.server.sweep(2)
        assert await client.rest() == b""
        await wait_until(lambda: running.listener.open_count == 0)

    serve(scenario)


def test_a_client_that_leaves_during_the_handshake_is_forgotten(serve):
    async def scenario(running: Running) -> None:
        client = await running.connect()
        client.send(b"\x16\x03")
        await client.close()
        await wait_until(lambda: running.listener.open_count == 0)
        assert not running.server.connections

    serve(scenario)


def test_closing_drops_who_is_still_shaking_hands(serve):
    async def scenario(running: Running) -> None:
        client = await running.connect()
        await wait_until(lambda: bool(running.server.connections))
        await running.server.close(1.0)
        assert await client.rest() == b""

    serve(scenario)


@pytest.mark.parametrize("seed", range(10))
def test_junk_closes_the_connection_and_nothing_else(serve, context, caplog, seed):
    chance = random.Random(seed)

    async def scenario(running: Running) -> None:
        client = await running.connect()
        client.send(bytes([0x16, 3, 1, 0, 50]) + chance.randbytes(100))
        await client.rest()
        other = await running.connect(context=context)
        assert (await other.ask("GET", "/ping")).body == b"OK"

    serve(scenario)
    assert "Traceback" not in caplog.text


def test_damaged_records_close_the_connection(serve, context):
    async def scenario(running: Running) -> None:
        client = await running.connect(context=context)
        assert (await client.ask("GET", "/ping")).body == b"OK"
        raw = client.writer.get_extra_info("socket")
        os.write(raw.fileno(), b"\x17\x03\x03\x00\x20" + b"x" * 32)
        await wait_until(lambda: running.listener.open_count == 0)

    serve(scenario)
