"""The same with gnsq, on gevent: greenlets that look as if they blocked."""

import sys
import time
from typing import Any

BODY = b"x" * 200


def publish(address: str, topic: str, count: int, outstanding: int) -> float:
    import gevent
    import gnsq

    producer = gnsq.Producer(address)
    producer.start()

    def work() -> None:
        for _ in range(count // outstanding):
            producer.publish(topic, BODY)

    producer.publish(topic, BODY)
    begun = time.perf_counter()
    gevent.joinall([gevent.spawn(work) for _ in range(outstanding)], raise_error=True)
    took = time.perf_counter() - begun
    producer.close()
    return took


def consume(address: str, topic: str, count: int, in_flight: int) -> float:
    import gnsq

    consumer = gnsq.Consumer(topic, "bench", address, max_in_flight=in_flight)
    seen, took = 0, 0.0
    begun = time.perf_counter()

    def handle(_consumer: Any, message: Any) -> None:
        nonlocal seen, took
        seen += 1
        if seen == count:
            took = time.perf_counter() - begun
            consumer.close()

    consumer.on_message.connect(handle)
    consumer.start()
    return took


if __name__ == "__main__":
    program = {"publish": publish, "consume": consume, "publish-blocking": publish}[sys.argv[1]]
    print(program(sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5])))
