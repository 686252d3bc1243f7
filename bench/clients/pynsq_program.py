"""The same with pynsq: callbacks on Tornado's loop, or its blocking connection."""

import logging
import sys
import time
from typing import Any

BODY = b"x" * 200


def publish(address: str, topic: str, count: int, outstanding: int) -> float:
    import nsq
    import tornado.ioloop

    loop = tornado.ioloop.IOLoop.current()
    writer = nsq.Writer([address])
    sent, answered, begun, took = 0, 0, 0.0, 0.0

    def send() -> None:
        nonlocal sent
        if sent < count:
            sent += 1
            writer.pub(topic, BODY, callback=settled)

    def settled(_connection: Any, data: Any) -> None:
        nonlocal answered, took
        assert data == b"OK", data
        answered += 1
        if answered == count:
            took = time.perf_counter() - begun
            loop.stop()
        else:
            send()

    def begin() -> None:
        nonlocal begun
        if not writer.conns:
            loop.call_later(0.05, begin)
            return
        begun = time.perf_counter()
        for _ in range(outstanding):
            send()

    loop.call_later(0.2, begin)
    loop.start()
    return took


def publish_bare(address: str, topic: str, count: int, _outstanding: int) -> float:
    """Its blocking connection, which waits for every answer."""
    import nsq
    from nsq import protocol

    host, _, port = address.partition(":")
    connection = nsq.SyncConn()
    connection.connect(host, int(port))
    begun = time.perf_counter()
    for _ in range(count):
        connection.send(protocol.pub(topic, BODY))
        assert connection.read_response().endswith(b"OK")
    return time.perf_counter() - begun


def consume(address: str, topic: str, count: int, in_flight: int) -> float:
    import nsq
    import tornado.ioloop

    loop = tornado.ioloop.IOLoop.current()
    seen, took = 0, 0.0
    begun = time.perf_counter()

    def handle(_message: Any) -> bool:
        nonlocal seen, took
        seen += 1
        if seen == count:
            took = time.perf_counter() - begun
            loop.call_later(0.1, loop.stop)
        return True

    nsq.Reader(
        message_handler=handle,
        nsqd_tcp_addresses=[address],
        topic=topic,
        channel="bench",
        max_in_flight=in_flight,
    )
    loop.start()
    return took


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    programs = {
        "publish": publish,
        "publish-blocking": publish,  # pynsq has nothing that blocks but the bare connection
        "publish-bare": publish_bare,
        "consume": consume,
    }
    print(programs[sys.argv[1]](sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5])))
