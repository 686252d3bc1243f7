import asyncio
from pathlib import Path
from typing import Any

import pytest

from nsqlake.apps.nsq_to_http.command import main, run
from nsqlake.apps.nsq_to_http.options import NsqToHttpOptions
from nsqlake.apps.tool_support.client_options import parse_client_option
from nsqlake.testing.nsqd import NsqdFixture, running_nsqd
from tests.apps.tools import run_in_process, running
from tests.fakes.http_sink import HttpSink, SinkAnswer, running_sink

FROM = "--nsqd-tcp-address=127.0.0.1:1"
GIVEN = ["--topic=t", FROM]
POST = "--post=http://a"
FORMAT = "--header value format should be 'key: value'"


@pytest.mark.parametrize(
    ("flags", "reason"),
    [
        ([FROM, POST], "--topic and --channel are required"),
        ([*GIVEN, POST, "--channel="], "--topic and --channel are required"),
        (["--topic=t", POST], "--nsqd-tcp-address or --lookupd-http-address required"),
        (GIVEN, "--get or --post required"),
        ([*GIVEN, POST, "--get=http://a/%s"], "use --get or --post not both"),
        ([*GIVEN, "--get=http://a"], "invalid GET address - must be a printf string"),
        ([*GIVEN, "--get=http://a/%s%s"], "invalid GET address - must be a printf string"),
        ([*GIVEN, "--get=http://a/%s", "--content-type=x"], "--content-type only used with --post"),
        ([*GIVEN, POST, "--content-type="], "--content-type requires a value when used"),
        ([*GIVEN, POST, "--header=abc"], FORMAT),
        ([*GIVEN, POST, "--sample=1.1"], "ERROR: --sample must be between 0.0 and 1.0"),
        ([*GIVEN, POST, "--sample=NaN"], "ERROR: --sample must be between 0.0 and 1.0"),
        ([*GIVEN, POST, "-n", "0"], "no handlers"),
        ([*GIVEN, POST, "-n", "-1"], "no handlers"),
        ([FROM, POST, "--topic=x y"], "invalid topic name"),
    ],
)
def test_what_is_missing_or_wrong_is_one_line(flags: list[str], reason: str, tmp_path: Path) -> None:
    ran = run_in_process(main, *flags, folder=tmp_path)

    assert (ran.code, ran.lines) == (1, [reason])


def test_a_sample_that_is_no_number_is_bad_usage(tmp_path: Path) -> None:
    ran = run_in_process(main, *GIVEN, POST, "--sample=abc", folder=tmp_path)

    assert ran.code == 2
    assert ran.err.startswith('invalid value "abc" for flag -sample: parse error\n')


def options_for(nsqd: NsqdFixture, sink: HttpSink, *consumer_opts: str, **more: Any) -> NsqToHttpOptions:
    opts = tuple(parse_client_option(text) for text in consumer_opts)
    more.setdefault("post", (sink.url,))
    return NsqToHttpOptions(
        topic="orders", nsqd_tcp_addresses=(nsqd.tcp_address,), consumer_opts=opts, **more
    )


def test_messages_are_sent_and_finished() -> None:
    bodies = [b"%d" % number for number in range(50)]

    async def scenario(nsqd: NsqdFixture, sink: HttpSink) -> None:
        nsqd.publish("orders", *bodies)
        async with running(run(options_for(nsqd, sink))):
            await nsqd.wait_channel("orders", "nsq_to_http", finished=50)

    with running_nsqd() as nsqd, running_sink() as sink:
        asyncio.run(scenario(nsqd, sink))

    assert sorted(sink.bodies) == sorted(bodies)


def test_a_refused_message_comes_again() -> None:
    async def scenario(nsqd: NsqdFixture, sink: HttpSink) -> None:
        nsqd.publish("orders", b"x")
        options = options_for(nsqd, sink, "default-requeue-delay,0s", "max_backoff_duration,0s")
        async with running(run(options)):
            await nsqd.wait_channel("orders", "nsq_to_http", finished=1)

    with running_nsqd() as nsqd, running_sink() as sink:
        sink.answer = lambda request: SinkAnswer(500 if len(sink.requests) < 3 else 201)
        asyncio.run(scenario(nsqd, sink))

    assert sink.bodies == [b"x"] * 3


def test_a_message_refused_too_often_is_given_up() -> None:
    async def scenario(nsqd: NsqdFixture, sink: HttpSink) -> None:
        nsqd.publish("orders", b"x")
        opts = ("max_attempts,2", "default_requeue_delay,0s", "max_backoff_duration,0s")
        async with running(run(options_for(nsqd, sink, *opts))):
            await nsqd.wait_channel("orders", "nsq_to_http", finished=1)

    with running_nsqd() as nsqd, running_sink(lambda request: SinkAnswer(500)) as sink:
        asyncio.run(scenario(nsqd, sink))

    assert sink.bodies == [b"x", b"x"]


def test_what_is_under_way_at_a_signal_is_finished() -> None:
    async def scenario(nsqd: NsqdFixture, sink: HttpSink) -> None:
        nsqd.publish("orders", *[b"%d" % number for number in range(40)])
        async with running(run(options_for(nsqd, sink, n=3, max_in_flight=20))):
            await nsqd.wait_channel("orders", "nsq_to_http", in_flight=20)
        counts = nsqd.channel("orders", "nsq_to_http")
        assert counts is not None
        assert (counts.finished, counts.in_flight, counts.requeued) == (len(sink.requests), 0, 0)

    with running_nsqd() as nsqd, running_sink() as sink:
        asyncio.run(scenario(nsqd, sink))
