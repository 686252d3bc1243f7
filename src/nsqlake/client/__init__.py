"""Producers and consumers for asyncio, and the same for blocking code.

Publish, and consume with a handler:

    async with Producer("127.0.0.1:4150") as producer:
        await producer.publish("orders", b"hello")

    async def handle(message: Message) -> None:
        print(message.body)

    Consumer("orders", "archive", handle, lookupd_http_addresses="127.0.0.1:4161").run()

docs/client.md has more.
"""

from nsqlake.client.blocking.consumer import BlockingConsumer
from nsqlake.client.blocking.producer import BlockingProducer
from nsqlake.client.config import ClientConfig
from nsqlake.client.consumer.consumer import Consumer
from nsqlake.client.consumer.hooks import ConsumerHooks
from nsqlake.client.consumer.stats import ConnectionStats, ConsumerStats
from nsqlake.client.errors import (
    ClientClosedError,
    ConnectError,
    ConnectionLostError,
    HandshakeRefusedError,
    InvalidArgumentError,
    NsqClientError,
    PublishError,
    PublishNotSentError,
    PublishRejectedError,
    PublishUnknownError,
    ServerError,
)
from nsqlake.client.message import Discard, Message, Requeue
from nsqlake.client.producer.encoding import json_body, text_body
from nsqlake.client.producer.hooks import ProducerHooks
from nsqlake.client.producer.producer import Producer
from nsqlake.client.producer.stats import ProducerStats

__all__ = [
    "BlockingConsumer",
    "BlockingProducer",
    "ClientClosedError",
    "ClientConfig",
    "ConnectError",
    "ConnectionLostError",
    "ConnectionStats",
    "Consumer",
    "ConsumerHooks",
    "ConsumerStats",
    "Discard",
    "HandshakeRefusedError",
    "InvalidArgumentError",
    "Message",
    "NsqClientError",
    "Producer",
    "ProducerHooks",
    "ProducerStats",
    "PublishError",
    "PublishNotSentError",
    "PublishRejectedError",
    "PublishUnknownError",
    "Requeue",
    "ServerError",
    "json_body",
    "text_body",
]
