"""From the start to the exit code: what the options ask for, until a signal or a failure ends it."""

import asyncio
import os
import signal
from concurrent.futures import ThreadPoolExecutor

from nsqlake.apps.nsq_to_file.archived_topic import Surroundings
from nsqlake.apps.nsq_to_file.files.file_names import Host
from nsqlake.apps.nsq_to_file.options import NAME, NsqToFileOptions
from nsqlake.apps.nsq_to_file.service import Service
from nsqlake.apps.nsq_to_file.topic_discovery import discover_topics
from nsqlake.apps.nsq_to_file.waiting import wait_any
from nsqlake.apps.tool_support.client_configs import consumer_config
from nsqlake.apps.tool_support.program import FAILED, OK
from nsqlake.apps.tool_support.progress import Progress
from nsqlake.apps.tool_support.stop_signals import StopSignals
from nsqlake.client.config import ClientConfig
from nsqlake.cluster.http_caller import HttpCaller
from nsqlake.cluster.lookupd_client import LookupdClient
from nsqlake.runtime.clock import Clock
from nsqlake.runtime.durations import SECOND_NS
from nsqlake.runtime.timers import LoopTimers

DISK_THREADS = 16  # topics that can wait for the disk at the same time


async def archive_topics(options: NsqToFileOptions) -> int:
    """The exit code; NsqlakeError when the options do not fit together."""
    config = archive_config(options)
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(DISK_THREADS, "disk"))
    host = Host(os.uname().nodename, os.getpid())
    async with Progress("archived") as progress:
        return await _archive(Surroundings(options, config, host, Clock(), LoopTimers(), progress.add))


def archive_config(options: NsqToFileOptions) -> ClientConfig:
    """A message is kept until the next sync, however long that takes, and never given up."""
    never_give_up = () if "max_attempts" in dict(options.consumer_opt) else (("max_attempts", 0),)
    return consumer_config(
        (*options.consumer_opt, *never_give_up),
        tool_name=NAME,
        max_in_flight=options.max_in_flight,
        auto_touch=True,
    )


async def _archive(shared: Surroundings) -> int:
    service = Service(shared)
    with StopSignals() as stop:
        asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, service.reopen)
        service.update_topics(shared.options.topics)
        await wait_any(stop.wait(), service.failed.wait(), _discover(service, shared))
        if stop.requested.is_set():
            await service.stop()
        else:
            await service.rescue()
    return FAILED if service.failed.is_set() else OK


async def _discover(service: Service, shared: Surroundings) -> None:
    """For ever; with topics given there is nothing to find."""
    options = shared.options
    if options.topics or options.topic_refresh_ns <= 0:
        await asyncio.Event().wait()
    caller = HttpCaller(
        connect_timeout_s=options.http_client_connect_timeout_ns / SECOND_NS,
        request_timeout_s=options.http_client_request_timeout_ns / SECOND_NS,
    )
    async with caller:
        lookupds = [LookupdClient(address, caller) for address in options.lookupd_http_addresses]
        interval_s = options.topic_refresh_ns / SECOND_NS
        await discover_topics(lookupds, service.update_topics, interval_s=interval_s, timers=shared.timers)
