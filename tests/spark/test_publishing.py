"""Publishing with failover, against nodes that fail as we like."""

from collections.abc import Iterator

import pyarrow as pa
import pytest

from nsqlake.spark.encode import Mpub, encode_batch
from nsqlake.spark.errors import WriteError
from nsqlake.spark.options import Access
from nsqlake.spark.publishing import FailoverPublisher
from tests.fakes.http_node import DROP, FakeHttpNode, Reply, http_node, json_reply

OK = Reply(b"OK")
BUSY = json_reply({"message": "DISK_FULL", "reason": "no room"}, 503)
NOWHERE = "127.0.0.1:1"


class Pauses(list[float]):
    """Stands for `time.sleep`."""

    def __call__(self, pause_s: float) -> None:
        self.append(pause_s)


@pytest.fixture
def nodes() -> Iterator[tuple[FakeHttpNode, FakeHttpNode]]:
    with http_node() as one, http_node() as other:
        one.answers.update({"/mpub": OK, "/pub": OK})
        other.answers.update({"/mpub": OK, "/pub": OK})
        yield one, other


def publisher_to(
    *nodes: FakeHttpNode | str, first: int = 0, retries: int = 1, pauses: Pauses | None = None
) -> FailoverPublisher:
    addresses = [node if isinstance(node, str) else node.address for node in nodes]
    access = Access(nsqd=tuple(addresses), timeout_s=5.0, retries=retries)
    return FailoverPublisher(addresses, access, first=first, sleep=pauses if pauses is not None else Pauses())


def mpub_of(*bodies: bytes, defer_ms: int = 0) -> Mpub:
    batch = pa.record_batch({"body": pa.array(bodies), "defer_ms": pa.array([defer_ms] * len(bodies))})
    (mpub,) = encode_batch(batch, "t", 1 << 20)
    return mpub


def test_messages_go_to_the_first_node_as_one_mpub(nodes: tuple[FakeHttpNode, FakeHttpNode]) -> None:
    publisher = publisher_to(*nodes, first=3)

    publisher.publish(mpub_of(b"a", b"bc"))

    (asked,) = nodes[1].asked
    assert (asked.method, asked.path, asked.params) == ("POST", "/mpub", {"topic": "t", "binary": "true"})
    assert asked.body == b"\0\0\0\2\0\0\0\1a\0\0\0\2bc"
    assert not nodes[0].asked
    assert publisher.message_count == 2


@pytest.mark.parametrize("failure", [DROP, BUSY, json_reply({}, 404)])
def test_another_node_gets_what_one_does_not_take_and_all_that_follows(
    nodes: tuple[FakeHttpNode, FakeHttpNode], failure: Reply
) -> None:
    nodes[0].answers["/mpub"] = [OK, failure]
    pauses = Pauses()
    publisher = publisher_to(*nodes, pauses=pauses)

    for body in (b"a", b"b", b"c"):
        publisher.publish(mpub_of(body))

    assert nodes[0].asked[0].body.endswith(b"a")
    assert [asked.body[-1:] for asked in nodes[1].asked] == [b"b", b"c"]
    assert publisher.message_count == 3
    assert not pauses


def test_a_node_that_is_down_from_the_start_is_passed_over(nodes: tuple[FakeHttpNode, FakeHttpNode]) -> None:
    publisher = publisher_to(NOWHERE, nodes[0])

    publisher.publish(mpub_of(b"a"))

    assert len(nodes[0].asked) == 1


def test_when_all_fail_they_are_asked_again_after_a_pause(nodes: tuple[FakeHttpNode, FakeHttpNode]) -> None:
    nodes[0].answers["/mpub"] = [BUSY, OK]
    pauses = Pauses()
    publisher = publisher_to(nodes[0], NOWHERE, pauses=pauses)

    publisher.publish(mpub_of(b"a"))

    assert len(nodes[0].asked) == 2
    assert len(pauses) == 1


def test_when_all_stay_down_the_error_names_them_all(nodes: tuple[FakeHttpNode, FakeHttpNode]) -> None:
    nodes[0].answers["/mpub"] = BUSY

    with pytest.raises(WriteError) as raised:
        publisher_to(nodes[0], NOWHERE).publish(mpub_of(b"a"))

    assert f"node {nodes[0].address}: " in str(raised.value)
    assert "DISK_FULL: no room" in str(raised.value)
    assert f"node {NOWHERE}: " in str(raised.value)
    assert "refused" in str(raised.value)


@pytest.mark.parametrize("status", [400, 401, 403, 413])
def test_what_no_node_would_take_is_not_sent_to_another(
    nodes: tuple[FakeHttpNode, FakeHttpNode], status: int
) -> None:
    nodes[0].answers["/mpub"] = json_reply({"message": "WHY", "reason": "because"}, status)

    with pytest.raises(WriteError) as raised:
        publisher_to(*nodes).publish(mpub_of(b"a"))

    expected = f"node {nodes[0].address}: topic t: answered {status} WHY: because"
    assert str(raised.value).startswith(expected)
    assert ("--max-msg-size" in str(raised.value)) == (status == 413)
    assert len(nodes[0].asked) == 1
    assert not nodes[1].asked


def test_deferred_messages_go_one_by_one_and_failover_repeats_only_one(
    nodes: tuple[FakeHttpNode, FakeHttpNode],
) -> None:
    nodes[0].answers["/pub"] = [OK, DROP]
    publisher = publisher_to(*nodes)

    publisher.publish(mpub_of(b"a", b"b", b"c", defer_ms=70))

    assert nodes[0].asked[0].params == {"topic": "t", "defer": "70"}
    assert {asked.body for asked in nodes[0].asked} == {b"a", b"b"}
    assert [asked.body for asked in nodes[1].asked] == [b"b", b"c"]
    assert publisher.message_count == 3
