"""A consumer whose nsqlookupds cannot be used says so, and soon."""

import asyncio
import socket
import time

import pytest

from nsqlake.client import ConnectError, Consumer, InvalidArgumentError


def unused_address() -> str:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{listener.getsockname()[1]}"


def test_waiting_ends_when_every_nsqlookupd_has_refused() -> None:
    addresses = [unused_address(), unused_address()]

    async def start() -> None:
        consumer = Consumer("orders", "archive", lookupd_http_addresses=addresses, lookupd_poll_timeout=60)
        await consumer.start(wait=True)

    begun = time.monotonic()
    with pytest.raises(ConnectError, match="no nsqlookupd answered") as refused:
        asyncio.run(start())

    assert all(address in str(refused.value) for address in addresses)
    assert time.monotonic() - begun < 30


def test_an_nsqlookupd_that_is_no_address_is_refused_when_the_consumer_is_made() -> None:
    with pytest.raises(InvalidArgumentError, match="lookupd_http_addresses"):
        Consumer("orders", "archive", lookupd_http_addresses="ftp://x")
