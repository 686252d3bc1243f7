"""One topic from nsqd to its files: a consumer, a logger and an archive."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from nsqlake.apps.nsq_to_file.errors import InvalidNameError
from nsqlake.apps.nsq_to_file.files.archive import Archive
from nsqlake.apps.nsq_to_file.files.disk import OS_DISK, Disk
from nsqlake.apps.nsq_to_file.files.file_names import Host
from nsqlake.apps.nsq_to_file.files.layout import layout_of
from nsqlake.apps.nsq_to_file.options import NsqToFileOptions
from nsqlake.apps.nsq_to_file.topic_logger import TopicLogger
from nsqlake.apps.nsq_to_file.waiting import wait_any
from nsqlake.client.config import ClientConfig
from nsqlake.client.consumer.consumer import Consumer
from nsqlake.client.message import Message
from nsqlake.runtime.clock import Clock
from nsqlake.runtime.durations import SECOND_NS
from nsqlake.runtime.timers import Timers
from nsqlake.wire.names import is_valid_name


@dataclass(frozen=True)
class Surroundings:
    """What all topics of a process share."""

    options: NsqToFileOptions
    config: ClientConfig
    host: Host
    clock: Clock
    timers: Timers
    on_archived: Callable[[int, int], object]
    disk: Disk = OS_DISK


class ArchivedTopic:
    """Raises NsqlakeError for a topic that cannot be archived; `run` ArchiveError when it no longer can."""

    def __init__(self, topic: str, shared: Surroundings) -> None:
        options = shared.options
        _check_name("topic", topic)
        _check_name("channel", options.channel)
        self.label = f"{topic}/{options.channel}"
        archive = Archive(
            layout_of(options, topic, shared.host), label=self.label, clock=shared.clock, disk=shared.disk
        )
        self._consumer = Consumer(
            topic,
            options.channel,
            self._handle,
            nsqd_tcp_addresses=options.nsqd_tcp_addresses,
            lookupd_http_addresses=options.lookupd_http_addresses,
            config=shared.config,
            timers=shared.timers,
        )
        self._logger = TopicLogger(
            archive,
            label=self.label,
            max_in_flight=options.max_in_flight,
            sync_interval_s=options.sync_interval_ns / SECOND_NS,
            is_starved=self._consumer.is_starved,
            on_archived=shared.on_archived,
            timers=shared.timers,
        )
        self.reopen = self._logger.reopen
        self._has_ended = asyncio.Event()

    async def run(self) -> None:
        """Until `stop`."""
        try:
            await self._consumer.start()
            await self._logger.run()
        except BaseException:
            self._consumer.stop_now()  # gives back what is not finished
            await self._consumer.wait_stopped()
            raise
        finally:
            self._has_ended.set()

    async def stop(self) -> None:
        """Take no more messages; `run` ends when those that came are on disk and finished."""
        self._logger.hurry()
        # A logger that fails leaves messages unfinished, for which the consumer would wait in vain.
        await wait_any(self._consumer.stop(), self._has_ended.wait())
        self._logger.end()

    async def _handle(self, message: Message) -> None:
        message.disable_auto_response()
        self._logger.deliver(message)


def _check_name(kind: str, name: str) -> None:
    if not is_valid_name(name.encode("utf-8", "surrogateescape")):
        raise InvalidNameError(kind, name)
