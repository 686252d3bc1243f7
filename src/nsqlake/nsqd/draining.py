"""Draining: nothing new comes in, consumers take what is there, and then the daemon may go.

Everything that some consumer could still take is waited for: what channels hold, in flight and deferred
messages included, what flows to the channels of a paused topic once it is unpaused, and transactions that
are committed and not in the logs yet. Messages of a topic without channels and dead letters are on disk and
stay there: nobody is about to read them.
"""

import asyncio
import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING

from nsqlake.nsqd.core.dead_letters import DEAD_CHANNEL, is_dead_topic
from nsqlake.nsqd.live_topic import LiveChannel, LiveTopic

if TYPE_CHECKING:
    from nsqlake.nsqd.broker import Broker

__all__ = ["undrained", "wait_drained"]

logger = logging.getLogger(__name__)

# Asking costs less than being told: that would be a check for every message finished, all life long.
_ASK_EVERY_S = 0.05
_REPORT_EVERY = 200  # questions


async def wait_drained(broker: "Broker") -> None:
    """Returns when nothing is left to wait for; says now and then what that is."""
    questions = 0
    while (holder := next(undrained(broker), None)) is not None:
        if questions % _REPORT_EVERY == 0:
            logger.info("NSQ: draining, %s and perhaps others still have messages", holder)
        questions += 1
        await asyncio.sleep(_ASK_EVERY_S)
    logger.info("NSQ: drained")


def undrained(broker: "Broker") -> Iterator[LiveTopic | LiveChannel | str]:
    """Who has messages that a consumer may yet take."""
    for txn in broker.transactions.undone:
        yield f"TXN({txn})"
    for topic in broker.topics.values():
        channels = [channel for channel in topic.channels.values() if not _keeps_dead_letters(channel)]
        if channels and (topic.core.depth or topic.gathering):
            yield topic
        for channel in channels:
            ledger = channel.core.ledger
            if ledger.out.count or len(ledger.deferred) or channel.core.depth:
                yield channel


def _keeps_dead_letters(channel: LiveChannel) -> bool:
    return channel.core.name == DEAD_CHANNEL and is_dead_topic(channel.topic.name)
