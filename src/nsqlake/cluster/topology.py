"""Finding the nsqds that have a topic: through the nsqlookupds, or by asking the nsqds themselves."""

from collections.abc import Sequence

from nsqlake.cluster.asking import Answers, ask_all
from nsqlake.cluster.lookupd_answers import Producer
from nsqlake.cluster.lookupd_client import LookupdClient
from nsqlake.cluster.merging import merge_names, merge_producers
from nsqlake.cluster.nsqd_client import NsqdClient

NSQD, NSQLOOKUPD = "nsqd", "nsqlookupd"


async def find_topics(lookupds: Sequence[LookupdClient]) -> Answers[str]:
    """The names that any of them knows; NobodyAnsweredError when none answers."""
    answers = await ask_all(lookupd.topics() for lookupd in lookupds)
    return Answers(merge_names(answers.require_any(NSQLOOKUPD)), answers.errors)


async def find_producers(lookupds: Sequence[LookupdClient], topic: str) -> Answers[Producer]:
    """The nsqds that any of them names; NobodyAnsweredError when none answers.

    One that does not know the topic counts as an error, as NSQ's tools see it.
    """
    answers = await ask_all(lookupd.lookup(topic) for lookupd in lookupds)
    lists = [answer.producers for answer in answers.require_any(NSQLOOKUPD)]
    return Answers(merge_producers(lists), answers.errors)


async def find_nsqds(nsqds: Sequence[NsqdClient], topic: str) -> Answers[NsqdClient]:
    """Those of `nsqds` that have the topic, each node once; NobodyAnsweredError when none answers.

    They are asked at the address they were given with: the one they announce may be for others.
    """
    answers = await ask_all(_identity(nsqd, topic) for nsqd in nsqds)
    by_identity: dict[str, NsqdClient] = {}
    for identity, nsqd in answers.require_any(NSQD):
        if identity:
            by_identity.setdefault(identity, nsqd)
    return Answers(list(by_identity.values()), answers.errors)


async def _identity(nsqd: NsqdClient, topic: str) -> tuple[str, NsqdClient]:
    """The address it announces, "" without the topic."""
    stats = await nsqd.stats(topic, include_clients=False)
    if stats.topic(topic) is None:
        return "", nsqd
    return (await nsqd.info()).tcp_address, nsqd
