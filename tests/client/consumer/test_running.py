"""`run`: a consumer as the whole program."""

import asyncio
import os
import signal
from threading import Thread

import pytest

from nsqlake.client.consumer.consumer import Consumer
from nsqlake.client.message import Message
from nsqlake.testing.nsqd import running_nsqd
from nsqlake.wire import commands
from tests.fakes.nsqd_process import wait_for
from tests.fakes.tcp_client import TcpClient


def send_signals(consumer: Consumer, count: int, number: signal.Signals) -> Thread:
    """Each when the one before has been noticed."""

    def send() -> None:
        wait_for(lambda: consumer.stats().running == 1)
        os.kill(os.getpid(), number)
        if count == 2:
            wait_for(lambda: consumer.is_stopping)
            os.kill(os.getpid(), number)

    thread = Thread(target=send)
    thread.start()
    return thread


@pytest.mark.parametrize(
    ("signals", "number", "answer"),
    [(1, signal.SIGTERM, "finished"), (1, signal.SIGINT, "finished"), (2, signal.SIGTERM, "requeued")],
)
def test_first_signal_lets_handlers_end_and_the_second_does_not(
    signals: int, number: signal.Signals, answer: str
) -> None:
    async def handler(message: Message) -> None:
        while not consumer.is_stopping or signals == 2:
            await asyncio.sleep(0)

    with running_nsqd() as nsqd, TcpClient(nsqd.tcp_address) as client:
        client.send(commands.pub("orders", b"x"))
        client.expect_ok()
        consumer = Consumer("orders", "archive", handler, nsqd_tcp_addresses=nsqd.tcp_address)
        thread = send_signals(consumer, signals, number)
        consumer.run()
        thread.join()

        assert getattr(consumer.stats(), answer) == 1
        assert signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler)
