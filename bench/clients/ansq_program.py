"""The same with ansq, on asyncio; it has no blocking API and fixes RDY at what it is told once."""

import asyncio
import sys
import time

BODY = b"x" * 200


async def publish(address: str, topic: str, count: int, outstanding: int) -> float:
    import ansq

    writer = await ansq.create_writer(nsqd_tcp_addresses=[address])

    async def work() -> None:
        for _ in range(count // outstanding):
            await writer.pub(topic, BODY)

    begun = time.perf_counter()
    await asyncio.gather(*(work() for _ in range(outstanding)))
    took = time.perf_counter() - begun
    await writer.close()
    return took


async def consume(address: str, topic: str, count: int, in_flight: int) -> float:
    import ansq

    begun = time.perf_counter()
    reader = await ansq.create_reader(nsqd_tcp_addresses=[address], topic=topic, channel="bench")
    for connection in reader.connections:
        await connection.rdy(in_flight)
    seen = 0
    async for message in reader.messages():
        await message.fin()
        seen += 1
        if seen == count:
            break
    took = time.perf_counter() - begun
    await reader.close()
    return took


if __name__ == "__main__":
    program = {"publish": publish, "consume": consume}[sys.argv[1]]
    print(asyncio.run(program(sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5]))))
