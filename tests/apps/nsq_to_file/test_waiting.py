import asyncio

import pytest

from nsqlake.apps.nsq_to_file.waiting import wait_any


def test_the_first_ends_the_waiting_and_the_others() -> None:
    async def run() -> tuple[bool, int]:
        first, second = asyncio.Event(), asyncio.Event()
        first.set()
        await wait_any(second.wait(), first.wait())
        await asyncio.sleep(0)
        return second.is_set(), len(asyncio.all_tasks())

    assert asyncio.run(run()) == (False, 1)


def test_the_error_of_the_first_is_raised() -> None:
    async def fail() -> None:
        raise ValueError("broken")

    async def run() -> None:
        await wait_any(asyncio.Event().wait(), fail())

    with pytest.raises(ValueError, match="broken"):
        asyncio.run(run())
