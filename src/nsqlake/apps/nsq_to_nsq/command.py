"""The command itself: flags, then a consumer per topic and a producer per destination until a signal."""

import asyncio
from collections.abc import Sequence

from nsqlake.apps.nsq_to_nsq.options import NsqToNsqOptions, check
from nsqlake.apps.tool_support.program import OK, Tool, run_tool

NAME = "nsq_to_nsq"
RECONNECT_MAX_S = 2.0  # messages fail without a connection, so one should be there again soon


def main(argv: Sequence[str] | None = None) -> int:
    """Run nsq_to_nsq; returns the exit code of the process."""
    return run_tool(TOOL, argv)


async def run(options: NsqToNsqOptions) -> int:
    # Imported late: help, version and a wrong flag must not wait for the client library.
    from nsqlake.apps.nsq_to_nsq.destination_nsqd import DestinationNsqd
    from nsqlake.apps.nsq_to_nsq.forwarding import Forwarding
    from nsqlake.apps.tool_support.client_configs import consumer_config, producer_config
    from nsqlake.apps.tool_support.consuming import consume_until, requeueing
    from nsqlake.apps.tool_support.progress import Progress
    from nsqlake.apps.tool_support.stop_signals import StopSignals
    from nsqlake.client.consumer.consumer import Consumer

    to_config = producer_config(options.producer_opts, tool_name=NAME, reconnect_max_delay=RECONNECT_MAX_S)
    from_config = consumer_config(
        options.consumer_opts,
        tool_name=NAME,
        max_in_flight=options.max_in_flight,
        concurrency=max(options.max_in_flight, 1),
        drain="process",
    )
    nsqds = {address: DestinationNsqd(address, to_config) for address in options.destinations}
    try:
        with StopSignals() as stop:
            async with Progress("published") as progress:
                forwarding = Forwarding(options, nsqds, progress)
                consumers = [
                    Consumer(
                        topic,
                        options.channel,
                        requeueing(forwarding.handle),
                        nsqd_tcp_addresses=options.nsqd_tcp_addresses,
                        lookupd_http_addresses=options.lookupd_http_addresses,
                        config=from_config,
                    )
                    for topic in options.topics
                ]
                await consume_until(consumers, stop.requested, has_nsqds=bool(options.nsqd_tcp_addresses))
    finally:
        await asyncio.gather(*(nsqd.close() for nsqd in nsqds.values()))
    return OK


TOOL = Tool(
    name=NAME,
    summary="Publishes the messages of topics to other nsqds, all of them or those that JSON flags let pass.",
    examples=(
        "nsq_to_nsq --topic=orders --nsqd-tcp-address=127.0.0.1:4150"
        " --destination-nsqd-tcp-address=127.0.0.1:5150",
        "nsq_to_nsq --topic=orders --nsqd-tcp-address=127.0.0.1:4150 --destination-topic=big_orders"
        " --require-json-field=size --require-json-value=big --destination-nsqd-tcp-address=127.0.0.1:4150",
    ),
    options_type=NsqToNsqOptions,
    check=check,
    run=run,
)
