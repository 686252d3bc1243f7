"""The producer and the consumer for programs without an event loop of their own."""

from nsqlake.client.blocking.consumer import BlockingConsumer
from nsqlake.client.blocking.errors import CalledInEventLoopError, ForkedClientError
from nsqlake.client.blocking.producer import BlockingProducer

__all__ = ["BlockingConsumer", "BlockingProducer", "CalledInEventLoopError", "ForkedClientError"]
