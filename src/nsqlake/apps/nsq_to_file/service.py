"""All topics of a process: which are archived, from when on, and how it ends."""

import asyncio
import logging
from collections.abc import Iterable

from nsqlake.apps.nsq_to_file.archived_topic import ArchivedTopic, Surroundings
from nsqlake.apps.nsq_to_file.errors import ArchiveError
from nsqlake.apps.nsq_to_file.topic_filter import TopicFilter
from nsqlake.errors import NsqlakeError

RESCUE_LIMIT_S = 10.0  # for the other topics, when one has failed

logger = logging.getLogger(__name__)


class Service:
    """`failed` is set when a topic cannot go on: then the process must end, with what is on disk."""

    def __init__(self, shared: Surroundings) -> None:
        self._shared = shared
        self._filter = TopicFilter(shared.options.topic_pattern)
        self._topics: dict[str, ArchivedTopic] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self.failed = asyncio.Event()
        if self._filter.error:
            logger.error("--topic-pattern matches no topic: %s", self._filter.error)

    def update_topics(self, topics: Iterable[str]) -> None:
        """Begin with those that are new and match the pattern; none ever ends."""
        for topic in topics:
            if topic in self._topics:
                continue
            if self._filter.allows(topic):
                self._begin(topic)
            else:
                logger.warning("skipping topic %s (doesn't match pattern %s)", topic, self._filter.text)

    def reopen(self) -> None:
        for topic in self._topics.values():
            topic.reopen()

    async def stop(self) -> None:
        """All that came is on disk and finished, except of a topic that fails."""
        await asyncio.gather(
            *(self._topics[name].stop() for name, task in self._tasks.items() if not task.done())
        )
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    async def rescue(self) -> None:
        """What can still be stored, when one topic has failed, before the process ends."""
        try:
            async with asyncio.timeout(RESCUE_LIMIT_S):
                await self.stop()
        except TimeoutError:
            logger.error("gave up on the rest after %s s; it is delivered again", RESCUE_LIMIT_S)

    def _begin(self, name: str) -> None:
        try:
            topic = ArchivedTopic(name, self._shared)
        except NsqlakeError as error:
            logger.error("couldn't create logger for new topic %s: %s", name, error)
            return
        task = asyncio.create_task(topic.run(), name=f"archive {name}")
        task.add_done_callback(lambda task: self._look_at_end(topic, task))
        self._topics[name], self._tasks[name] = topic, task

    def _look_at_end(self, topic: ArchivedTopic, task: asyncio.Task[None]) -> None:
        if task.cancelled():
            return
        error = task.exception()
        if error is None:
            return
        self.failed.set()
        if isinstance(error, ArchiveError):
            logger.critical("[%s] %s", topic.label, error)
        else:
            logger.critical("[%s] stopped by an error of its own", topic.label, exc_info=error)
