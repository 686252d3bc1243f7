from threading import Event, Thread

import pytest

from nsqlake.apps.demo.traffic import CHANNEL, TOPIC, Consumer, Generator
from nsqlake.testing.nsqd import NsqdFixture, running_nsqd
from nsqlake.topiclog.errors import AppendError
from tests.integration.support import eventually, figures


def full_disk(*_: object, **__: object) -> int:
    raise AppendError("disk full: no space left on device", recoverable=True)


def address(nsqd: NsqdFixture) -> tuple[str, int]:
    return "127.0.0.1", nsqd.tcp_port


def test_what_the_generator_publishes_the_consumer_finishes() -> None:
    generator, consumer, stopping = Generator(500), Consumer(), Event()
    with running_nsqd() as nsqd:
        threads = [
            Thread(target=work, args=(address(nsqd), stopping)) for work in (generator.run, consumer.run)
        ]
        for thread in threads:
            thread.start()

        eventually(lambda: consumer.finished >= 100)
        stopping.set()
        for thread in threads:
            thread.join()

        left = figures(nsqd, TOPIC, CHANNEL)
        assert consumer.finished + left.depth + left.in_flight == generator.published


def test_the_generator_goes_on_after_a_refusal() -> None:
    generator, stopping = Generator(500), Event()
    with running_nsqd() as nsqd:
        thread = Thread(target=generator.run, args=(address(nsqd), stopping))
        thread.start()
        eventually(lambda: generator.published > 0)
        log = nsqd.call(lambda daemon: daemon.broker.topics[TOPIC].core.log)

        nsqd.call(lambda _: setattr(log, "append", full_disk))
        eventually(lambda: generator.refused > 0)
        nsqd.call(lambda _: delattr(log, "append"))
        published = generator.published

        eventually(lambda: generator.published > published)
        stopping.set()
        thread.join()


def test_a_broker_that_leaves_ends_the_consumer() -> None:
    consumer = Consumer()
    failures: list[OSError] = []

    def run() -> None:
        try:
            consumer.run(address(nsqd), Event())
        except OSError as error:
            failures.append(error)

    with running_nsqd() as nsqd:
        thread = Thread(target=run)
        thread.start()
        eventually(lambda: TOPIC in nsqd.call(lambda daemon: dict(daemon.broker.topics)))
    thread.join()

    assert isinstance(failures[0], ConnectionError)


@pytest.mark.parametrize("rate", [1, 100_000])
def test_a_generator_that_is_stopped_at_once_publishes_nothing(rate: int) -> None:
    generator, stopping = Generator(rate), Event()
    stopping.set()

    with running_nsqd() as nsqd:
        generator.run(address(nsqd), stopping)

    assert generator.published == 0
