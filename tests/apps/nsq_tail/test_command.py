import asyncio
import contextlib
import re
import signal
from pathlib import Path

import pytest

from nsqlake.apps.nsq_tail.command import main, run
from nsqlake.apps.nsq_tail.options import NsqTailOptions, check
from nsqlake.testing.nsqd import BlockingWaits, NsqdFixture, running_nsqd
from tests.apps.tools import LIMIT_S, Ran, run_in_process, running, tool_process
from tests.fakes.loop_turns import wait_until

DEAD = "--nsqd-tcp-address=127.0.0.1:1"


def tail(nsqd: NsqdFixture, folder: Path, *flags: str) -> Ran:
    return run_in_process(main, f"--nsqd-tcp-address={nsqd.tcp_address}", *flags, folder=folder)


@pytest.mark.parametrize(
    ("flags", "reason"),
    [
        ([], "--nsqd-tcp-address or --lookupd-http-address required"),
        (
            ["--topic=t", DEAD, "--lookupd-http-address=a:1"],
            "use --nsqd-tcp-address or --lookupd-http-address not both",
        ),
        ([DEAD], "--topic required"),
        ([DEAD, "--topic=b d"], "invalid topic name"),
        ([DEAD, "--topic="], "invalid topic name"),
        ([DEAD, "--topic=t", "--channel=b d"], "invalid channel name"),
        (["--topic=t", "--lookupd-http-address=foo"], "missing port"),
        (["--topic=t", "--nsqd-tcp-address=foo"], "dial tcp: address foo: missing port in address"),
        ([DEAD, "--topic=t", "--max-in-flight=-1"], "invalid MaxInFlight ! -1 < 0"),
        (
            [DEAD, "--topic=t", "--consumer-opt=heartbeat_interval,90s"],
            "HeartbeatInterval 1m30s must be less than ReadTimeout 1m0s",
        ),
    ],
)
def test_what_is_missing_or_wrong_is_one_line(flags: list[str], reason: str, tmp_path: Path) -> None:
    ran = run_in_process(main, *flags, folder=tmp_path)

    assert (ran.code, ran.lines) == (1, [reason])


@pytest.mark.parametrize(
    "option", ["sample_rate,100", "deflate,maybe", "msg_timeout", "backoff_strategy,foo", "x,1"]
)
def test_a_wrong_consumer_option_is_bad_usage(option: str, tmp_path: Path) -> None:
    ran = run_in_process(main, DEAD, "--topic=t", f"--consumer-opt={option}", folder=tmp_path)

    assert ran.code == 2
    assert ran.err.startswith(f'invalid value "{option}" for flag -consumer-opt: ')


def test_the_version(tmp_path: Path) -> None:
    ran = run_in_process(main, "--version", folder=tmp_path)

    assert (ran.code, ran.out) == (0, b"nsq_tail v1.3.0\n")


def test_it_shows_n_messages_finishes_them_and_gives_back_the_rest(tmp_path: Path) -> None:
    with running_nsqd() as nsqd:
        nsqd.create_channel("orders", "copy")
        nsqd.publish("orders", b"1", b"\xff2", b"3")
        ran = tail(nsqd, tmp_path, "--topic=orders", "--channel=copy", "-n", "2")

        counts = nsqd.channel("orders", "copy")
    assert (ran.code, ran.out) == (0, b"1\n\xff2\n")
    assert counts is not None
    assert (counts.finished, counts.depth, counts.in_flight) == (2, 1, 0)
    assert ran.lines[0] == "Adding consumer for topic: orders"
    assert re.fullmatch(r"showed 2 messages \(3 B\), [\d,]+/s", ran.lines[-1])


def test_it_ends_when_one_topic_has_shown_n(tmp_path: Path) -> None:
    with running_nsqd() as nsqd:
        for topic in ("a", "b"):
            nsqd.create_channel(topic, "copy")
        nsqd.publish("a", b"1")
        nsqd.publish("b", b"1", b"2", b"3", b"4")
        ran = tail(nsqd, tmp_path, "--topic=a", "--topic=b", "--channel=copy", "-n", "3", "--print-topic")

    assert ran.code == 0
    assert [line for line in ran.out.splitlines() if line.startswith(b"b")] == [b"b | 1", b"b | 2", b"b | 3"]


def test_many_messages_arrive_whole(tmp_path: Path) -> None:
    bodies = [b"%d" % number for number in range(5_000)]
    with running_nsqd() as nsqd:
        nsqd.create_channel("orders", "copy")
        nsqd.publish("orders", *bodies)
        ran = tail(nsqd, tmp_path, "--topic=orders", "--channel=copy", "-n", "5000")

        BlockingWaits(nsqd).wait_empty("orders", "copy")
    assert sorted(ran.out.splitlines()) == sorted(bodies)


def test_an_nsqd_that_is_not_there_at_the_start_is_fatal(tmp_path: Path) -> None:
    with running_nsqd() as nsqd:
        ran = tail(nsqd, tmp_path, "--topic=orders", DEAD)

    assert ran.code == 1
    assert ran.lines[-1].endswith("connection refused")


def test_an_output_that_fails_is_fatal_and_the_messages_go_back(tmp_path: Path) -> None:
    with running_nsqd() as nsqd:
        nsqd.create_channel("orders", "copy")
        nsqd.publish("orders", b"1", b"2")
        flags = ["--topic=orders", "--channel=copy", f"--nsqd-tcp-address={nsqd.tcp_address}"]
        ran = run_in_process(main, *flags, folder=tmp_path, output_path="/dev/full")

        BlockingWaits(nsqd).wait_channel("orders", "copy", depth=2, in_flight=0)
    assert (ran.code, ran.lines[-1]) == (1, "ERROR: failed to write to os.Stdout - no space left on device")


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 0), (signal.SIGHUP, -1)])
def test_a_signal_ends_it(number: signal.Signals, code: int) -> None:
    with running_nsqd() as nsqd:
        nsqd.create_channel("orders", "copy")
        nsqd.publish("orders", b"1")
        flags = ["--topic=orders", "--channel=copy", f"--nsqd-tcp-address={nsqd.tcp_address}"]
        with tool_process("nsq_tail", *flags) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == b"1\n"
            process.send_signal(number)

            assert process.wait(LIMIT_S) == code


def test_without_an_answer_from_nsqlookupd_it_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    options = NsqTailOptions(topics=("orders",), lookupd_http_addresses=("127.0.0.1:1",))

    async def scenario() -> None:
        async with running(run(check(options))):
            await wait_until(lambda: "no nsqlookupd answered" in caplog.text)

    asyncio.run(scenario())


def test_without_a_channel_it_reads_one_of_its_own_that_goes_with_it(tmp_path: Path) -> None:
    async def scenario(nsqd: NsqdFixture) -> None:
        options = check(NsqTailOptions(topics=("orders",), nsqd_tcp_addresses=(nsqd.tcp_address,)))
        assert re.fullmatch(r"tail\d{6}#ephemeral", options.channel)
        nsqd.publish("orders", b"1")
        async with running(run(options)):
            await nsqd.wait_channel("orders", options.channel, finished=1)
        await wait_until(lambda: nsqd.channel("orders", options.channel) is None)

    with (
        running_nsqd() as nsqd,
        open(tmp_path / "output", "w", encoding="utf-8") as output,
        contextlib.redirect_stdout(output),
    ):
        asyncio.run(scenario(nsqd))
    assert (tmp_path / "output").read_bytes() == b"1\n"
