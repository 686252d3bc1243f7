"""The command itself: flags, then one consumer until a signal."""

from collections.abc import Sequence

from nsqlake.apps.nsq_to_http.options import NsqToHttpOptions, check
from nsqlake.apps.tool_support.program import OK, Tool, run_tool

NAME = "nsq_to_http"


def main(argv: Sequence[str] | None = None) -> int:
    """Run nsq_to_http; returns the exit code of the process."""
    return run_tool(TOOL, argv)


async def run(options: NsqToHttpOptions) -> int:
    # Imported late: help, version and a wrong flag must not wait for the libraries.
    from nsqlake.apps.nsq_to_http.forwarding import Forwarding
    from nsqlake.apps.nsq_to_http.http_target import HttpTarget
    from nsqlake.apps.tool_support.client_configs import consumer_config
    from nsqlake.apps.tool_support.consuming import consume_until, requeueing
    from nsqlake.apps.tool_support.progress import Progress
    from nsqlake.apps.tool_support.stop_signals import StopSignals
    from nsqlake.client.consumer.consumer import Consumer

    config = consumer_config(
        options.consumer_opts,
        tool_name=NAME,
        max_in_flight=options.max_in_flight,
        concurrency=options.n,
        drain="process",
    )
    target = HttpTarget(options)
    try:
        with StopSignals() as stop:
            async with Progress("sent") as progress:
                consumer = Consumer(
                    options.topic,
                    options.channel,
                    requeueing(Forwarding(options, target, progress).handle),
                    nsqd_tcp_addresses=options.nsqd_tcp_addresses,
                    lookupd_http_addresses=options.lookupd_http_addresses,
                    config=config,
                )
                await consume_until([consumer], stop.requested, has_nsqds=bool(options.nsqd_tcp_addresses))
    finally:
        await target.close()
    return OK


TOOL = Tool(
    name=NAME,
    summary="Sends the messages of a topic to HTTP servers; one is finished when a server has taken it.",
    examples=(
        "nsq_to_http --topic=orders --nsqd-tcp-address=127.0.0.1:4150 --post=http://127.0.0.1:8000/orders",
        "nsq_to_http --topic=orders --lookupd-http-address=127.0.0.1:4161 --get='http://127.0.0.1:8000/hit?order=%s'",
    ),
    options_type=NsqToHttpOptions,
    check=check,
    run=run,
)
