"""One nsqd to publish to."""

from nsqlake.client.config import ClientConfig
from nsqlake.client.producer.hooks import ProducerHooks
from nsqlake.client.producer.producer import Producer


class DestinationNsqd:
    """Connects with the first message; while there is no connection, messages fail at once."""

    def __init__(self, address: str, config: ClientConfig) -> None:
        hooks = ProducerHooks(on_connect=self._connected, on_disconnect=self._disconnected)
        self._producer = Producer(address, config=config, hooks=hooks)
        self._is_connected = False

    def _connected(self, _address: str) -> None:
        self._is_connected = True

    def _disconnected(self, _address: str, _error: object) -> None:
        self._is_connected = False

    async def publish(self, topic: str, body: bytes) -> None:
        """Returns when nsqd has taken it; ConnectError or PublishError."""
        if not self._is_connected:
            await self._producer.start(wait=True)
        await self._producer.publish(topic, body)

    async def close(self) -> None:
        await self._producer.close()
