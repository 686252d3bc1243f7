"""Which nsqd gets the next publish."""

from dataclasses import dataclass

import pytest

from nsqlake.client.errors import InvalidArgumentError
from nsqlake.client.producer.node_choice import NodeChoice


@dataclass
class Candidate:
    address: str
    pending_count: int = 0


def nodes(*counts: int) -> list[Candidate]:
    return [Candidate(name, count) for name, count in zip("abcdef", counts, strict=False)]


def chosen(strategy: str, candidates: list[Candidate], times: int = 1, failed_at: str = "") -> str:
    choice = NodeChoice(strategy, lambda below: below - 1)
    found = [choice.choose(candidates, failed_at) for _ in range(times)]
    return "".join(node.address for node in found if node is not None)


def test_in_turn() -> None:
    assert chosen("round-robin", nodes(0, 0, 0), times=6) in ("abcabc", "bcabca", "cabcab")


def test_the_turn_goes_on_when_the_candidates_change() -> None:
    choice = NodeChoice("round-robin", lambda _: 0)
    three = nodes(0, 0, 0)

    found = {choice.choose(three[: 1 + number % 3]).address for number in range(12)}  # type: ignore[union-attr]

    assert found == {"a", "b", "c"}


def test_at_random() -> None:
    assert chosen("random", nodes(0, 0, 0)) == "c"


def test_the_first_as_long_as_it_is_there() -> None:
    assert chosen("first", nodes(9, 0), times=3) == "aaa"
    assert chosen("first", nodes(9, 0)[1:]) == "b"


def test_the_one_with_the_least_pending() -> None:
    assert chosen("least-pending", nodes(3, 1, 2)) == "b"


@pytest.mark.parametrize("strategy", ["round-robin", "random", "first", "least-pending"])
def test_another_than_the_one_that_failed(strategy: str) -> None:
    assert chosen(strategy, nodes(0, 5), failed_at="a") == "b"
    assert chosen(strategy, nodes(0), failed_at="a") == "a"
    assert chosen(strategy, [], failed_at="a") == ""


def test_an_unknown_strategy_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="round-robin, random, first, least-pending"):
        NodeChoice("roundrobin", lambda _: 0)
