"""Questions to one nsqd, and what it can be asked to do."""

from typing import Literal

from nsqlake.cluster.addresses import NSQD_HTTP_PORT, HttpAddress, parse_http_address
from nsqlake.cluster.http_caller import HttpCaller
from nsqlake.cluster.nsqd_answers import NsqdInfo, NsqdStats

Action = Literal["create", "delete", "empty", "pause", "unpause"]


class NsqdClient:
    """Every method raises RequestError when it gets no usable answer; AddressError only at the start."""

    def __init__(self, address: str | HttpAddress, caller: HttpCaller) -> None:
        if isinstance(address, str):
            address = parse_http_address(address, default_port=NSQD_HTTP_PORT)
        self.address = address
        self._caller = caller

    async def stats(self, topic: str = "", channel: str = "", *, include_clients: bool = True) -> NsqdStats:
        """Of all topics and channels, or only of those named; an nsqd that has none of them lists none."""
        params = {"format": "json"}
        if topic:
            params["topic"] = topic
        if channel:
            params["channel"] = channel
        if not include_clients:
            params["include_clients"] = "false"
        return await self._caller.get(self.address, "/stats", NsqdStats, params)

    async def info(self) -> NsqdInfo:
        return await self._caller.get(self.address, "/info", NsqdInfo)

    async def change_topic(self, action: Action, topic: str) -> None:
        await self._caller.post(self.address, f"/topic/{action}", {"topic": topic})

    async def change_channel(self, action: Action, topic: str, channel: str) -> None:
        await self._caller.post(self.address, f"/channel/{action}", {"topic": topic, "channel": channel})
