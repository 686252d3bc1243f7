"""The command itself: flags, then a consumer per topic until a signal or the last message."""

import logging
import sys
from collections.abc import Sequence

from nsqlake.apps.nsq_tail.options import NsqTailOptions, check
from nsqlake.apps.tool_support.program import OK, Tool, run_tool

NAME = "nsq_tail"

logger = logging.getLogger(__name__)


def main(argv: Sequence[str] | None = None) -> int:
    """Run nsq_tail; returns the exit code of the process."""
    return run_tool(TOOL, argv)


async def run(options: NsqTailOptions) -> int:
    # Imported late: help, version and a wrong flag must not wait for the client library.
    from nsqlake.apps.nsq_tail.output import Output
    from nsqlake.apps.nsq_tail.tail import Tail
    from nsqlake.apps.tool_support.client_configs import consumer_config
    from nsqlake.apps.tool_support.consuming import consume_until
    from nsqlake.apps.tool_support.progress import Progress
    from nsqlake.apps.tool_support.stop_signals import StopSignals
    from nsqlake.client.consumer.consumer import Consumer

    config = consumer_config(
        options.consumer_opts,
        tool_name=NAME,
        max_in_flight=options.max_in_flight,
        concurrency=max(options.max_in_flight, 1),
    )
    output = Output(sys.stdout.fileno())
    with StopSignals() as stop:
        async with Progress("showed", owns_terminal=not sys.stdout.isatty()) as progress:
            tail = Tail(output, progress, limit=options.n, shows_topic=options.print_topic)
            consumers = []
            for topic in options.topics:
                logger.info("Adding consumer for topic: %s", topic)
                consumers.append(
                    Consumer(
                        topic,
                        options.channel,
                        tail.handle,
                        nsqd_tcp_addresses=options.nsqd_tcp_addresses,
                        lookupd_http_addresses=options.lookupd_http_addresses,
                        config=config,
                    )
                )
            await consume_until(
                consumers, stop.requested, tail.ended, has_nsqds=bool(options.nsqd_tcp_addresses)
            )
    output.close()
    if tail.error is not None:
        raise tail.error
    return OK


TOOL = Tool(
    name=NAME,
    summary="Shows the messages of topics on standard output, one per line, as they come.",
    examples=(
        "nsq_tail --topic=orders --nsqd-tcp-address=127.0.0.1:4150",
        "nsq_tail --topic=orders --topic=logs --print-topic --lookupd-http-address=127.0.0.1:4161",
        "nsq_tail --topic=orders --channel=copy -n 100 --nsqd-tcp-address=127.0.0.1:4150 > orders.txt",
    ),
    options_type=NsqTailOptions,
    check=check,
    run=run,
)
