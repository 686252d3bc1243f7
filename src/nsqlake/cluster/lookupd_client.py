"""Questions to one nsqlookupd, and what it can be asked to do."""

from nsqlake.cluster.addresses import NSQLOOKUPD_HTTP_PORT, HttpAddress, parse_http_address
from nsqlake.cluster.http_caller import HttpCaller
from nsqlake.cluster.lookupd_answers import (
    ChannelsAnswer,
    LookupAnswer,
    LookupdInfo,
    Node,
    NodesAnswer,
    TopicsAnswer,
)


class LookupdClient:
    """Every method raises RequestError when it gets no usable answer; AddressError only at the start."""

    def __init__(self, address: str | HttpAddress, caller: HttpCaller) -> None:
        if isinstance(address, str):
            address = parse_http_address(address, default_port=NSQLOOKUPD_HTTP_PORT)
        self.address = address
        self._caller = caller

    async def lookup(self, topic: str) -> LookupAnswer:
        """StatusError with status 404 for a topic that it does not know."""
        return await self._caller.get(self.address, "/lookup", LookupAnswer, {"topic": topic})

    async def topics(self) -> list[str]:
        return (await self._caller.get(self.address, "/topics", TopicsAnswer)).topics

    async def channels(self, topic: str) -> list[str]:
        answer = await self._caller.get(self.address, "/channels", ChannelsAnswer, {"topic": topic})
        return answer.channels

    async def nodes(self) -> list[Node]:
        return (await self._caller.get(self.address, "/nodes", NodesAnswer)).producers

    async def info(self) -> LookupdInfo:
        return await self._caller.get(self.address, "/info", LookupdInfo)

    async def create_topic(self, topic: str) -> None:
        await self._caller.post(self.address, "/topic/create", {"topic": topic})

    async def delete_topic(self, topic: str) -> None:
        await self._caller.post(self.address, "/topic/delete", {"topic": topic})

    async def tombstone_topic(self, topic: str, *, node: str) -> None:
        """`node` is `broadcast_address:http_port`, as nsqlookupd writes it: IPv6 without brackets."""
        await self._caller.post(self.address, "/topic/tombstone", {"topic": topic, "node": node})

    async def create_channel(self, topic: str, channel: str) -> None:
        await self._caller.post(self.address, "/channel/create", {"topic": topic, "channel": channel})

    async def delete_channel(self, topic: str, channel: str) -> None:
        await self._caller.post(self.address, "/channel/delete", {"topic": topic, "channel": channel})
