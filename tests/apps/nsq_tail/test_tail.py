import asyncio
import errno
from collections.abc import Sequence

import pytest

from nsqlake.apps.nsq_tail.tail import Tail
from nsqlake.apps.tool_support.progress import Progress
from nsqlake.client.message import Requeue
from nsqlake.testing.messages import make_message


class Page:
    """Takes what is written, until it is full."""

    def __init__(self, room: int = 1_000) -> None:
        self.text = b""
        self._room = room

    async def write(self, data: bytes) -> None:
        if len(self.text) + len(data) > self._room:
            raise OSError(errno.ENOSPC, "full")
        self.text += data


async def show(tail: Tail, topic: str, *bodies: bytes) -> list[bool]:
    """False for what is requeued at once and without backoff."""
    shown = []
    for body in bodies:
        try:
            await tail.handle(make_message(body, topic=topic))
            shown.append(True)
        except Requeue as wish:
            shown.append(bool(wish.delay or wish.backoff))
    return shown


def shown_with(
    page: Page, bodies: Sequence[bytes], *, limit: int = 0, shows_topic: bool = False
) -> tuple[Tail, list[bool]]:
    async def scenario() -> tuple[Tail, list[bool]]:
        tail = Tail(page, Progress("showed"), limit=limit, shows_topic=shows_topic)
        return tail, await show(tail, "orders", *bodies)

    return asyncio.run(scenario())


def test_a_message_is_its_bytes_and_a_line_feed() -> None:
    page = Page()

    tail, _ = shown_with(page, [b"\xff\x00", b"b"])

    assert page.text == b"\xff\x00\nb\n"
    assert not tail.ended.is_set()


def test_the_topic_may_stand_before_it() -> None:
    page = Page()

    shown_with(page, [b"a"], shows_topic=True)

    assert page.text == b"orders | a\n"


def test_it_ends_with_the_last_message_wanted_and_gives_back_the_next() -> None:
    page = Page()

    tail, shown = shown_with(page, [b"a", b"b", b"c"], limit=2)

    assert (page.text, shown) == (b"a\nb\n", [True, True, False])
    assert tail.ended.is_set()


def test_messages_are_counted_by_topic() -> None:
    async def scenario() -> None:
        tail = Tail(Page(), Progress("showed"), limit=2, shows_topic=False)
        await show(tail, "orders", b"a")
        await show(tail, "logs", b"a")
        assert not tail.ended.is_set()
        await show(tail, "logs", b"b")
        assert tail.ended.is_set()

    asyncio.run(scenario())


def test_an_output_that_fails_ends_it_and_shows_nothing_more() -> None:
    page = Page(room=2)

    tail, shown = shown_with(page, [b"a", b"b", b"c"])

    assert shown == [True, False, False]
    assert tail.ended.is_set()
    assert str(tail.error) == "ERROR: failed to write to os.Stdout - no space left on device"


@pytest.mark.parametrize("limit", [0, -1])
def test_without_a_limit_it_goes_on(limit: int) -> None:
    _, shown = shown_with(Page(), [b"a"] * 10, limit=limit)

    assert shown == [True] * 10
