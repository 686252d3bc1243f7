import asyncio
import json
import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nsqlake.nsqd.lookup.channel_discovery import (
    MAX_CHANNELS,
    MAX_REPLY_BYTES,
    ChannelDiscovery,
    DiscoveryError,
    decode_channels,
)
from tests.fakes.lookupd import STALL, FakeLookupd, http_answer
from tests.nsqd.lookup.support import run_on_loop, run_with_lookupd

TINY_NS = 50_000_000


async def find(*addresses: str, topic: str = "t", timeout_ns: int = 0) -> list[str]:
    discovery = ChannelDiscovery(connect_timeout_ns=timeout_ns, request_timeout_ns=timeout_ns)
    try:
        return await discovery.find(addresses, topic)
    finally:
        await discovery.close()


def test_the_question_is_the_one_nsqd_asks() -> None:
    async def scenario(lookupd: FakeLookupd) -> None:
        lookupd.channels["t#ephemeral"] = ["c"]

        assert await find(lookupd.http_address, topic="t#ephemeral") == ["c"]

        (request,) = lookupd.http_requests
        assert request.startswith("GET /channels?topic=t%23ephemeral HTTP/1.1\r\n")
        assert "\r\naccept: application/vnd.nsq; version=1.0\r\n" in request.lower()

    run_with_lookupd(scenario)


def test_ephemeral_invalid_and_repeated_names_are_left_out(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(lookupd: FakeLookupd) -> None:
        lookupd.channels["t"] = ["pre2", "e#ephemeral", "pre", "pre", "", "a b", "../x", "n\n", "é"]

        assert await find(lookupd.http_address) == ["pre", "pre2"]

    run_with_lookupd(scenario)

    assert "TOPIC(t): invalid channel names left out count=" in caplog.text


def test_what_several_know_is_put_together() -> None:
    async def scenario(lookupd: FakeLookupd) -> None:
        async with FakeLookupd() as other:
            lookupd.channels["t"], other.channels["t"] = ["a", "b"], ["b", "c"]

            assert await find(lookupd.http_address, other.http_address) == ["a", "b", "c"]

    run_with_lookupd(scenario)


def test_a_host_that_cannot_be_encoded_is_one_that_cannot_be_asked(caplog: pytest.LogCaptureFixture) -> None:
    assert run_on_loop(find("xn--a:4161")) == []

    assert "LOOKUPD(xn--a:4161): channels of t not found" in caplog.text


def free_address() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{probe.getsockname()[1]}"


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (http_answer(b"{}", status=404), "status 404"),
        (http_answer(b"{}", status=302, headers="Location: http://127.0.0.1:1/\r\n"), "status 302"),
        (http_answer(b"nothing"), "invalid reply: nothing"),
        (http_answer(b"[]"), "invalid reply"),
        (http_answer(b'{"channels":["a",1]}'), "invalid reply"),
        (http_answer(b"[" * 200_000), "invalid reply"),
        (http_answer(b"x" * (MAX_REPLY_BYTES + 1)), "reply larger than"),
        (http_answer(b"{}", headers="Content-Encoding: gzip\r\n"), "compressed reply"),
        (b"gibberish\r\n\r\n", "Error"),
    ],
)
def test_one_that_fails_is_logged_and_does_not_spoil_the_others(
    reply: bytes, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(lookupd: FakeLookupd) -> None:
        async with FakeLookupd() as broken:
            lookupd.channels["t"], broken.http_reply = ["a"], reply

            assert await find(lookupd.http_address, broken.http_address) == ["a"]
            assert f"LOOKUPD({broken.http_address}): channels of t not found: " in caplog.text

    run_with_lookupd(scenario)

    assert reason in caplog.text


def test_one_that_does_not_answer_is_waited_for_no_longer_than_the_limit(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario(lookupd: FakeLookupd) -> None:
        lookupd.http_reply = STALL

        assert await find(lookupd.http_address, timeout_ns=TINY_NS) == []

    run_with_lookupd(scenario)

    assert "not found: no reply within 0.05 s" in caplog.text


@pytest.mark.parametrize("address", ["127.0.0.1:1%2", "[::zz]:80", ":4161", "host name:80"])
def test_an_address_that_cannot_be_asked_gives_nothing(address: str) -> None:
    assert run_on_loop(find(address)) == []


def test_nobody_listening_gives_nothing(caplog: pytest.LogCaptureFixture) -> None:
    assert run_on_loop(find(free_address())) == []
    assert "ConnectError" in caplog.text


def test_a_reply_without_channels_gives_nothing() -> None:
    assert decode_channels(b'{"channels":null}') == decode_channels(b"{}") == []


def test_closing_ends_the_wait_with_nothing(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(lookupd: FakeLookupd) -> None:
        lookupd.http_reply = STALL
        discovery = ChannelDiscovery()
        finding = asyncio.create_task(discovery.find([lookupd.http_address], "t"))
        await lookupd.wait_until(lambda: bool(lookupd.http_requests))

        await discovery.close()

        assert await asyncio.wait_for(finding, 5) == []
        assert caplog.text == ""
        assert await discovery.find([lookupd.http_address], "t") == []

    run_with_lookupd(scenario)


def test_there_is_a_limit_to_how_many_channels_are_made(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(lookupd: FakeLookupd) -> None:
        lookupd.channels["t"] = [f"c{number}" for number in range(MAX_CHANNELS + 1)]

        assert len(await find(lookupd.http_address)) == MAX_CHANNELS

    run_with_lookupd(scenario)

    assert "too many channels count=1025 limit=1024" in caplog.text


@given(
    st.binary(max_size=100)
    | st.recursive(st.none() | st.text(max_size=5), st.lists).map(
        lambda value: json.dumps({"channels": value}).encode()
    )
)
def test_any_reply_gives_names_or_an_error(payload: bytes) -> None:
    try:
        names = decode_channels(payload)
    except DiscoveryError:
        return
    assert all(isinstance(name, str) for name in names)
