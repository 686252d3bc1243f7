"""Scripts that end, fork, or both, as programs of their own."""

import subprocess
import sys
import textwrap
from collections.abc import Iterator

import pytest

from nsqlake.testing.nsqd import NsqdFixture, running_nsqd

LIMIT_S = 30


@pytest.fixture(scope="module")
def nsqd() -> Iterator[NsqdFixture]:
    with running_nsqd() as nsqd:
        yield nsqd


def run(script: str, nsqd: NsqdFixture) -> str:
    """What it prints; it must end well and say nothing on stderr."""
    program = "import sys\nADDRESS = sys.argv[1]\n" + textwrap.dedent(script)
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", program, nsqd.tcp_address]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")
    return ended.stdout


def test_publishing_once_takes_three_lines(nsqd: NsqdFixture) -> None:
    run(
        """
        from nsqlake.client.blocking import BlockingProducer
        with BlockingProducer(ADDRESS) as producer:
            producer.publish("once", b"hello")
        """,
        nsqd,
    )

    assert nsqd.bodies("once") == [b"hello"]


def test_what_is_outstanding_at_the_end_is_still_published(nsqd: NsqdFixture) -> None:
    run(
        """
        from nsqlake.client.blocking import BlockingProducer
        producer = BlockingProducer(ADDRESS)
        for number in range(1000):
            producer.publish_nowait("exit", b"%d" % number)
        """,
        nsqd,
    )

    assert len(nsqd.bodies("exit")) == 1000


@pytest.mark.slow
def test_the_end_does_not_wait_long_for_an_nsqd_that_is_not_there(nsqd: NsqdFixture) -> None:
    printed = run(
        """
        import atexit, time
        begin = time.monotonic()
        atexit.register(lambda: print(time.monotonic() - begin))
        import logging
        logging.disable()
        from nsqlake.client.blocking import BlockingProducer
        producer = BlockingProducer("127.0.0.1:1")
        producer.publish_nowait("orders", b"never")
        """,
        nsqd,
    )

    assert 1.5 < float(printed) < 10


def test_a_child_process_publishes_over_a_connection_of_its_own(nsqd: NsqdFixture) -> None:
    run(
        """
        import os
        from nsqlake.client.blocking import BlockingProducer
        producer = BlockingProducer(ADDRESS)
        producer.publish("forked", b"parent before")
        child = os.fork()
        if child == 0:
            producer.publish("forked", b"child")
            producer.close()
            sys.exit(0)
        assert os.waitpid(child, 0)[1] == 0
        producer.publish("forked", b"parent after")
        producer.close()
        """,
        nsqd,
    )

    assert nsqd.bodies("forked") == [b"parent before", b"child", b"parent after"]


def test_parent_and_child_may_both_publish_past_the_loop(nsqd: NsqdFixture) -> None:
    run(
        """
        import os
        from nsqlake.client.blocking import BlockingProducer
        producer = BlockingProducer(ADDRESS)
        def publish(name):
            for number in range(200):
                producer.publish(name, b"%d" % number)
        publish("parent")
        child = os.fork()
        publish("child" if child == 0 else "parent")
        producer.close()
        if child:
            assert os.waitpid(child, 0)[1] == 0
        """,
        nsqd,
    )

    numbers = [b"%d" % number for number in range(200)]
    assert nsqd.bodies("parent") == numbers * 2
    assert nsqd.bodies("child") == numbers


def test_a_child_process_that_ends_leaves_the_parents_publishes_alone(nsqd: NsqdFixture) -> None:
    run(
        """
        import os
        from nsqlake.client.blocking import BlockingProducer
        producer = BlockingProducer(ADDRESS)
        producer.publish("left", b"1")
        child = os.fork()
        if child == 0:
            sys.exit(0)
        assert os.waitpid(child, 0)[1] == 0
        second = os.fork()
        if second == 0:
            producer.close()
            sys.exit(0)
        assert os.waitpid(second, 0)[1] == 0
        producer.publish("left", b"2")
        """,
        nsqd,
    )

    assert nsqd.bodies("left") == [b"1", b"2"]


def test_a_consumer_of_the_parent_says_so_in_the_child(nsqd: NsqdFixture) -> None:
    printed = run(
        """
        import os
        from nsqlake.client.blocking import BlockingConsumer, ForkedClientError
        consumer = BlockingConsumer("orders", "archive", nsqd_tcp_addresses=ADDRESS)
        consumer.start()
        parent = os.getpid()
        child = os.fork()
        if child == 0:
            try:
                consumer.get()
            except ForkedClientError as error:
                print(error.parent_pid == parent, error.pid == os.getpid())
            sys.exit(0)
        assert os.waitpid(child, 0)[1] == 0
        consumer.stop()
        """,
        nsqd,
    )

    assert printed == "True True\n"
