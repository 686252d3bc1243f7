"""What is done for all topics now and then: syncs, retention, memory, journals that could not be written."""

import asyncio
import logging
from collections.abc import Iterator

from nsqlake.nsqd.broker import Broker
from nsqlake.nsqd.live_topic import LiveTopic
from nsqlake.nsqd.options import NsqdOptions
from nsqlake.runtime.pace import run_in_slices

__all__ = ["keep_house", "keep_house_once", "keep_synced"]

logger = logging.getLogger(__name__)

_INTERVAL_S = 1.0


async def keep_synced(broker: Broker, options: NsqdOptions) -> None:
    """Sync logs and journals that changed, every `--sync-timeout`."""
    while True:
        await asyncio.sleep(options.sync_timeout_ns / 1e9)
        topics = list(broker.topics.values())
        for topic in topics:
            if topic.log is not None and topic.log.needs_sync:
                topic.request_sync()
        # Journals are synced one after the other, however long that takes: no log waits for it.
        for topic in topics:
            for channel in list(topic.channels.values()):
                await broker.sync_journal(channel)


async def keep_house(broker: Broker, options: NsqdOptions) -> None:
    while True:
        await asyncio.sleep(_INTERVAL_S)
        await keep_house_once(broker, options)


async def keep_house_once(broker: Broker, options: NsqdOptions) -> None:
    await run_in_slices(_tidy_all(broker, broker.now_ns()))
    broker.letters.retry()
    broker.transactions.tidy()
    _limit_memory(broker, options.mem_bytes)


def _tidy_all(broker: Broker, now_ns: int) -> Iterator[None]:
    for topic in list(broker.topics.values()):
        if not topic.core.is_closed:
            _tidy(broker, topic, now_ns)
            yield


def _tidy(broker: Broker, topic: LiveTopic, now_ns: int) -> None:
    topic.core.trim()
    topic.forget_publishers()
    kept = broker.retention.of(topic.name)
    try:
        removed = topic.core.retire(keep_bytes=kept.nbytes, keep_after_ns=kept.after_ns(now_ns))
    except OSError as error:
        logger.error("%s: consumed segments not removed, will be tried again: %s", topic, error)
        removed = []
    if removed:
        logger.debug("%s: consumed segments removed count=%d", topic, len(removed))
    for channel in topic.channels.values():
        if channel.journal is not None and channel.journal.failure is not None:
            channel.journal.write_snapshot(channel.core.ledger)
    topic.report_damage()
    topic.save_moved_origin()


def _limit_memory(broker: Broker, limit_bytes: int) -> None:
    """Over budget, the topics that hold most forget what they can read back from disk."""
    logs = [topic.log for topic in broker.topics.values() if topic.log is not None]
    total = sum(log.memory_bytes for log in logs)
    for log in sorted(logs, key=lambda log: log.memory_bytes, reverse=True):
        if total <= limit_bytes:
            return
        total -= log.memory_bytes
        log.trim_memory(log.end)
