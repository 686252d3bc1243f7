"""The last thing that happens to the files of every topic."""

import logging
from collections.abc import Callable, Iterable
from functools import partial

from nsqlake.nsqd.data_store import DataStore
from nsqlake.nsqd.live_topic import LiveChannel, LiveTopic
from nsqlake.topiclog.errors import TopicLogError

__all__ = ["close_files"]

logger = logging.getLogger(__name__)


def close_files(topics: Iterable[LiveTopic], data: DataStore) -> bool:
    """Everything is on disk when this returns; whether that worked for every topic. Blocks."""
    went_well = True
    for topic in topics:
        if topic.log is None:
            continue
        topic.report_damage()
        went_well = _quietly(topic, topic.log.close) and went_well
        data.high_water = max(data.high_water, topic.log.end)
        for channel in topic.channels.values():
            went_well = _quietly(topic, partial(_close_journal, channel)) and went_well
    return went_well


def _quietly(topic: LiveTopic, close: Callable[[], None]) -> bool:
    try:
        close()
    except (OSError, TopicLogError) as error:
        logger.error("%s: not closed cleanly: %s", topic, error)
        return False
    return True


def _close_journal(channel: LiveChannel) -> None:
    journal = channel.journal
    if journal is None:
        return
    if channel.core.ledger.pending or journal.failure is not None:
        journal.write_snapshot(channel.core.ledger)
    if journal.failure is not None:
        raise journal.failure
    job = journal.begin_sync()
    if job is not None:
        job.run()
        journal.end_sync(job, None)
    journal.close()
