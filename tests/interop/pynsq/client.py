"""The scenarios of tests/interop/README.md, played with the published pynsq."""

import asyncio
import hashlib
import json
import logging
import sys
import time
from typing import Any

import nsq
from nsq.version import __version__


def several_bodies(asked: dict[str, Any]) -> list[bytes]:
    size, state, noise = asked["large_bytes"], 1, bytearray()
    for _ in range(size):
        state = (state * 1664525 + 1013904223) & 0xFFFFFFFF
        noise.append(state >> 24)
    return [*(text.encode() for text in asked["several"]), b"nsq " * (size // 4), bytes(noise)]


class Play:
    """One scenario under way."""

    def __init__(self, asked: dict[str, Any], scenario: str) -> None:
        self.asked, self.scenario = asked, scenario
        self.topic = f"{asked['topic']}.{scenario}"
        self.single = asked["single"].encode()
        self.started = time.monotonic()
        self.done = asyncio.Event()
        self.seen: dict[str, Any] = {"acknowledged": 0, "deliveries": [], "requeued_at_ms": 0, "error": ""}
        self.wanted = {"consume": 1 + len(several_bodies(asked)), "requeue": 2, "timeout": 2}.get(scenario, 1)

    def now_ms(self) -> float:
        return (time.monotonic() - self.started) * 1000

    def options(self) -> dict[str, Any]:
        mode = self.asked["mode"]
        options = {"heartbeat_interval": 1, "snappy": mode == "tls-snappy", "deflate": mode == "tls-deflate"}
        if mode != "plain":
            options |= {"tls_v1": True, "tls_options": {"ca_certs": self.asked["ca_file"]}}
        if self.scenario in ("touch", "timeout"):
            options["msg_timeout"] = self.asked["msg_timeout_ms"] / 1000
        return options

    async def connect(self, client: nsq.Reader | nsq.Writer) -> None:
        while not client.conns:
            if self.now_ms() > self.asked["limit_ms"]:
                raise TimeoutError("no connection")
            await asyncio.sleep(0.02)

    async def publish(self, writer: nsq.Writer) -> None:
        if self.scenario == "defer":
            await acknowledged(writer.dpub, self.topic, self.asked["delay_ms"], self.single)
            return
        await acknowledged(writer.pub, self.topic, self.single)
        if self.scenario in ("publish", "consume"):
            self.seen["acknowledged"] = 1
            await acknowledged(writer.mpub, self.topic, several_bodies(self.asked))
            self.seen["acknowledged"] = 2

    def record(self, message: nsq.Message) -> int:
        digest = hashlib.sha256(message.body).hexdigest()
        self.seen["deliveries"].append(
            {
                "attempts": message.attempts,
                "at_ms": self.now_ms(),
                "bytes": len(message.body),
                "sha256": digest,
            }
        )
        return len(self.seen["deliveries"])

    def handle(self, message: nsq.Message) -> None:
        message.enable_async()
        count = self.record(message)
        if count == 1 and self.scenario == "timeout":
            return
        if count == 1 and self.scenario == "requeue":
            self.seen["requeued_at_ms"] = self.now_ms()
            message.requeue(backoff=False, time_ms=self.asked["delay_ms"])
        elif self.scenario == "touch":
            self.hold_touching(message, count, self.now_ms() + self.asked["hold_ms"])
        else:
            self.finish(message, count)

    def hold_touching(self, message: nsq.Message, count: int, until_ms: float) -> None:
        if self.now_ms() >= until_ms:
            self.finish(message, count)
            return
        message.touch()
        interval = self.asked["msg_timeout_ms"] / 4000
        asyncio.get_running_loop().call_later(interval, self.hold_touching, message, count, until_ms)

    def finish(self, message: nsq.Message, count: int) -> None:
        message.finish()
        if count == self.wanted:
            self.done.set()

    async def consume(self, writer: nsq.Writer) -> None:
        reader = nsq.Reader(
            topic=self.topic,
            channel=self.asked["channel"],
            message_handler=self.handle,
            nsqd_tcp_addresses=[self.asked["address"]],
            max_in_flight=10,
            **self.options(),
        )
        await self.connect(reader)
        self.started = time.monotonic()
        await self.publish(writer)
        await asyncio.wait_for(self.done.wait(), self.asked["limit_ms"] / 1000)
        await asyncio.sleep(0.2)  # pynsq closes its socket without waiting for what is unsent
        reader.close()

    async def run(self) -> dict[str, Any]:
        writer = nsq.Writer([self.asked["address"]], **self.options())
        try:
            await self.connect(writer)
            await (self.publish if self.scenario == "publish" else self.consume)(writer)
        except Exception as error:
            self.seen["error"] = repr(error)
        return self.seen


async def acknowledged(send: Any, *args: Any) -> None:
    answered: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
    send(*args, callback=lambda _conn, data: answered.set_result(data))
    data = await answered
    if data != b"OK":
        raise RuntimeError(repr(data))


async def main() -> None:
    asked = json.loads(sys.argv[1])
    seen = await asyncio.gather(*(Play(asked, scenario).run() for scenario in asked["scenarios"]))
    scenarios = dict(zip(asked["scenarios"], seen, strict=True))
    print(json.dumps({"client": "pynsq", "version": __version__, "scenarios": scenarios}))


if __name__ == "__main__":
    logging.basicConfig(stream=sys.stderr)
    asyncio.run(main())
