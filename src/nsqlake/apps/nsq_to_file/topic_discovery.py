"""Asking the nsqlookupds again and again which topics there are."""

import logging
from collections.abc import Callable, Iterable, Sequence

from nsqlake.cluster.errors import NobodyAnsweredError, joined
from nsqlake.cluster.lookupd_client import LookupdClient
from nsqlake.cluster.topology import find_topics
from nsqlake.runtime.timers import Timers

logger = logging.getLogger(__name__)


async def discover_topics(
    lookupds: Sequence[LookupdClient],
    on_found: Callable[[Iterable[str]], object],
    *,
    interval_s: float,
    timers: Timers,
) -> None:
    """For ever. A round in which any of them fails counts for nothing: so does NSQ."""
    while True:
        await _ask(lookupds, on_found)
        await timers.sleep(interval_s)


async def _ask(lookupds: Sequence[LookupdClient], on_found: Callable[[Iterable[str]], object]) -> None:
    try:
        answers = await find_topics(lookupds)
    except NobodyAnsweredError as error:
        logger.error("could not retrieve topic list: %s", error)
        return
    if answers.errors:
        logger.error("could not retrieve topic list: %s", joined(answers.errors))
    else:
        on_found(answers.found)
