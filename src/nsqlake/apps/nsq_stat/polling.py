"""The figures of one channel, summed over all nodes that have its topic."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from nsqlake.apps.nsq_stat.errors import ChannelNotFoundError, PollError
from nsqlake.cluster.asking import Answers, ask_all
from nsqlake.cluster.errors import NobodyAnsweredError, joined
from nsqlake.cluster.http_caller import HttpCaller
from nsqlake.cluster.lookupd_client import LookupdClient
from nsqlake.cluster.merging import merge_channels
from nsqlake.cluster.nsqd_answers import ChannelStats
from nsqlake.cluster.nsqd_client import NsqdClient
from nsqlake.cluster.topology import NSQD, find_nsqds, find_producers

T = TypeVar("T")

FINDING = "failed to get topic producers"
COUNTING = "failed to get nsqd stats"


@dataclass(frozen=True)
class ChannelPoll:
    """Asks everybody anew each time: nodes come and go. Either `lookupds` or `nsqds` is empty."""

    topic: str
    channel: str
    caller: HttpCaller
    lookupds: Sequence[LookupdClient] = ()
    nsqds: Sequence[NsqdClient] = ()

    async def read(self) -> ChannelStats:
        """PollError or ChannelNotFoundError unless all that should answer do."""
        parts = await self._read_nodes(await self._find_nodes())
        if not parts:
            raise ChannelNotFoundError(self.topic, self.channel)
        return merge_channels(parts)

    async def _find_nodes(self) -> list[NsqdClient]:
        try:
            if not self.lookupds:
                return _all_of(await find_nsqds(self.nsqds, self.topic), FINDING)
            producers = _all_of(await find_producers(self.lookupds, self.topic), FINDING)
        except NobodyAnsweredError as error:
            raise PollError(FINDING, str(error)) from error
        return [NsqdClient(producer.http_address, self.caller) for producer in producers]

    async def _read_nodes(self, nodes: Sequence[NsqdClient]) -> list[ChannelStats]:
        answers = await ask_all(node.stats(self.topic, self.channel, include_clients=False) for node in nodes)
        try:
            answers.require_any(NSQD)
        except NobodyAnsweredError as error:
            raise PollError(COUNTING, str(error)) from error
        found = [stats.channel(self.topic, self.channel) for stats in _all_of(answers, COUNTING)]
        return [channel for channel in found if channel is not None]


def _all_of(answers: Answers[T], during: str) -> list[T]:
    if answers.errors:
        raise PollError(during, joined(answers.errors))
    return answers.found
