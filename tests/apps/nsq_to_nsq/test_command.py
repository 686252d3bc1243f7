import asyncio
from pathlib import Path
from typing import Any

import pytest

from nsqlake.apps.nsq_to_nsq.command import main, run
from nsqlake.apps.nsq_to_nsq.options import NsqToNsqOptions
from nsqlake.apps.tool_support.client_options import parse_client_option
from nsqlake.testing.nsqd import NsqdFixture, running_nsqd
from tests.apps.tools import run_in_process, running

DEAD = "127.0.0.1:1"
FROM = f"--nsqd-tcp-address={DEAD}"
TO = f"--destination-nsqd-tcp-address={DEAD}"


@pytest.mark.parametrize(
    ("flags", "reason"),
    [
        ([FROM, TO], "--topic and --channel are required"),
        (["--topic=t", "--channel="], "--topic and --channel are required"),
        (["--topic=a b"], "--topic is invalid"),
        (["--topic=t", "--topic="], "--topic is invalid"),
        (["--topic=t", "--destination-topic=a b"], "--destination-topic is invalid"),
        (["--topic=t", "--channel=a b"], "--channel is invalid"),
        (["--topic=t"], "--nsqd-tcp-address or --lookupd-http-address required"),
        (
            ["--topic=t", FROM, "--lookupd-http-address=a:1"],
            "use --nsqd-tcp-address or --lookupd-http-address not both",
        ),
        (["--topic=t", FROM], "--destination-nsqd-tcp-address required"),
        (
            ["--topic=t", FROM, TO, "--producer-opt=heartbeat_interval,90s"],
            "HeartbeatInterval 1m30s must be less than ReadTimeout 1m0s",
        ),
    ],
)
def test_what_is_missing_or_wrong_is_one_line(flags: list[str], reason: str, tmp_path: Path) -> None:
    ran = run_in_process(main, *flags, folder=tmp_path)

    assert (ran.code, ran.lines) == (1, [reason])


def options_for(source: NsqdFixture, *destinations: str, **more: Any) -> NsqToNsqOptions:
    more.setdefault("topics", ("orders",))
    return NsqToNsqOptions(nsqd_tcp_addresses=(source.tcp_address,), destinations=destinations, **more)


def test_messages_of_all_topics_are_published_and_finished() -> None:
    bodies = [b"%d" % number for number in range(300)]

    async def scenario(source: NsqdFixture, target: NsqdFixture) -> None:
        source.publish("orders", *bodies)
        source.publish("logs", b"x")
        async with running(run(options_for(source, target.tcp_address, topics=("orders", "logs")))):
            await source.wait_channel("orders", "nsq_to_nsq", finished=300)
            await source.wait_channel("logs", "nsq_to_nsq", finished=1)

    with running_nsqd() as source, running_nsqd() as target:
        asyncio.run(scenario(source, target))

        assert sorted(target.bodies("orders")) == sorted(bodies)
        assert target.bodies("logs") == [b"x"]


def test_a_destination_that_refuses_costs_one_delivery_and_the_other_gets_all() -> None:
    async def scenario(source: NsqdFixture, target: NsqdFixture) -> None:
        source.publish("orders", b"1", b"2", b"3")
        opts = tuple(map(parse_client_option, ("default_requeue_delay,0s", "max_backoff_duration,0s")))
        options = options_for(source, DEAD, target.tcp_address, consumer_opts=opts, max_in_flight=1)
        async with running(run(options)):
            counts = await source.wait_channel("orders", "nsq_to_nsq", finished=3)
        assert counts.requeued == 1

    with running_nsqd() as source, running_nsqd() as target:
        asyncio.run(scenario(source, target))

        assert sorted(target.bodies("orders")) == [b"1", b"2", b"3"]


def test_while_the_only_destination_refuses_messages_wait_in_the_source() -> None:
    async def scenario(source: NsqdFixture) -> None:
        source.publish("orders", b"1")
        async with running(run(options_for(source, DEAD))):
            counts = await source.wait_channel("orders", "nsq_to_nsq", requeued=1)
        assert (counts.finished, counts.deferred) == (0, 1)

    with running_nsqd() as source:
        asyncio.run(scenario(source))


def test_a_destination_that_comes_back_is_used_again(tmp_path: Path) -> None:
    texts = ("default_requeue_delay,20ms", "max_backoff_duration,0s", "max_attempts,0")
    opts = tuple(map(parse_client_option, texts))

    async def scenario(source: NsqdFixture, target: NsqdFixture) -> None:
        async with running(run(options_for(source, target.tcp_address, consumer_opts=opts))):
            await source.wait_channel("orders", "nsq_to_nsq", finished=1)
            target.stop()
            source.publish("orders", b"2")
            await source.wait_channel("orders", "nsq_to_nsq", requeued=1)
            with running_nsqd(tcp_address=target.tcp_address, data_path=str(tmp_path)) as again:
                await source.wait_channel("orders", "nsq_to_nsq", finished=2)
                assert again.bodies("orders") == [b"1", b"2"]

    with running_nsqd() as source, running_nsqd(data_path=str(tmp_path)) as target:
        source.publish("orders", b"1")
        asyncio.run(scenario(source, target))
