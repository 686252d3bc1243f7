"""Names of transactions."""

import pytest

from nsqlake.nsqd.transactions.txn_id import MAX_NUMBER, TxnId, is_producer


def test_a_name_is_a_producer_and_a_number() -> None:
    assert TxnId.parse("9b1deb4d-3b7d-4bad-9bdd.17") == TxnId("9b1deb4d-3b7d-4bad-9bdd", 17)
    assert str(TxnId("query", 0)) == "query.0"
    assert TxnId.parse(f"q.{MAX_NUMBER}") == TxnId("q", MAX_NUMBER)


@pytest.mark.parametrize(
    "text",
    [
        *("", "q", "q.", ".1", "q.-1", "q.1.2", "q.1\n", "q.1\0", "../x.1", "q/x.1", "q x.1"),
        *("q.\u0663", "\u00e9.1", "a" * 97 + ".1", f"q.{MAX_NUMBER + 1}", "q." + "1" * 20),
    ],
)
def test_what_is_no_name(text: str) -> None:
    assert TxnId.parse(text) is None


@pytest.mark.parametrize("name", [".", "..", "", ".removed-1", "a/b", "a\0", "a" * 97])
def test_what_must_not_become_a_directory_is_no_producer(name: str) -> None:
    assert not is_producer(name)
    assert is_producer("a" * 96)


def test_a_producers_names_are_in_the_order_of_their_numbers() -> None:
    assert TxnId("q", 9) < TxnId("q", 10)
