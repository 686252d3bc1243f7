import asyncio

import pytest

from nsqlake.apps.tool_support.consuming import consume_until, requeueing
from nsqlake.apps.tool_support.errors import ToolError
from nsqlake.client.consumer.consumer import Consumer
from nsqlake.client.errors import ConnectError
from nsqlake.client.message import Message, Requeue
from nsqlake.testing.messages import make_message
from nsqlake.testing.nsqd import NsqdFixture, running_nsqd

DEAD = "127.0.0.1:1"


async def refuse(message: Message) -> None:
    raise ToolError("got status code 500")


async def break_down(message: Message) -> None:
    raise ZeroDivisionError


def test_an_expected_error_is_one_line_and_a_requeue_with_backoff(caplog: pytest.LogCaptureFixture) -> None:
    message = make_message(b"x")

    with pytest.raises(Requeue) as caught:
        asyncio.run(requeueing(refuse)(message))

    assert (caught.value.delay, caught.value.backoff) == (None, True)
    assert caplog.messages == [f"Handler returned error (got status code 500) for msg {message.id.decode()}"]


def test_an_error_of_our_own_is_not_hidden() -> None:
    with pytest.raises(ZeroDivisionError):
        asyncio.run(requeueing(break_down)(make_message(b"x")))


async def take(message: Message) -> None:
    pass


def test_consumers_run_until_the_first_of_the_ends() -> None:
    async def scenario(nsqd: NsqdFixture) -> None:
        consumer = Consumer("orders", "mail", take, nsqd_tcp_addresses=nsqd.tcp_address)
        ends = asyncio.Event(), asyncio.Event()
        running = asyncio.create_task(consume_until([consumer], *ends, has_nsqds=True))
        nsqd.publish("orders", b"1")
        await nsqd.wait_channel("orders", "mail", finished=1)
        ends[1].set()
        await running
        assert consumer.is_stopped

    with running_nsqd() as nsqd:
        asyncio.run(scenario(nsqd))


def test_all_nsqds_given_by_address_must_be_there() -> None:
    async def scenario(*addresses: str) -> None:
        consumer = Consumer("orders", "mail", take, nsqd_tcp_addresses=addresses)
        await consume_until([consumer], asyncio.Event(), has_nsqds=True)

    with running_nsqd() as nsqd, pytest.raises(ToolError, match="refused"):
        asyncio.run(scenario(nsqd.tcp_address, DEAD))
    with pytest.raises(ConnectError, match="refused"):
        asyncio.run(scenario(DEAD))
