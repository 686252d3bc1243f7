"""Publishes or consumes with nsqlake.client; prints the seconds it took."""

import asyncio
import sys
import time
from collections.abc import Coroutine
from typing import Any

import uvloop

from nsqlake.client import BlockingProducer, Consumer, Message, Producer

BODY = b"x" * 200


async def publish(address: str, topic: str, count: int, outstanding: int) -> float:
    """`outstanding` tasks, each of which waits for the answer to its publish before the next one."""
    async with Producer(address) as producer:
        await producer.start(wait=True)

        async def work() -> None:
            for _ in range(count // outstanding):
                await producer.publish(topic, BODY)

        begun = time.perf_counter()
        await asyncio.gather(*(work() for _ in range(outstanding)))
        return time.perf_counter() - begun


async def consume(address: str, topic: str, count: int, in_flight: int) -> float:
    done, seen = asyncio.Event(), 0

    async def handle(_message: Message) -> None:
        nonlocal seen
        seen += 1
        if seen == count:
            done.set()

    begun = time.perf_counter()
    async with Consumer(topic, "bench", handle, nsqd_tcp_addresses=address, max_in_flight=in_flight):
        await done.wait()
        return time.perf_counter() - begun


def publish_blocking(address: str, topic: str, count: int, outstanding: int) -> float:
    """One by one, or, with more outstanding, without waiting for each answer."""
    with BlockingProducer(address, max_publish_in_flight=outstanding) as producer:
        producer.publish(topic, BODY)
        begun = time.perf_counter()
        if outstanding == 1:
            for _ in range(count):
                producer.publish(topic, BODY)
        else:
            for _ in range(count):
                producer.publish_nowait(topic, BODY)
            producer.flush()
        return time.perf_counter() - begun


def run(program: Coroutine[Any, Any, float]) -> float:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(program)


def main(what: str, address: str, topic: str, count: int, outstanding: int) -> float:
    if what == "consume":
        return run(consume(address, topic, count, outstanding))
    if what == "publish":
        return run(publish(address, topic, count, outstanding))
    return publish_blocking(address, topic, count, outstanding)


if __name__ == "__main__":
    print(main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5])))
