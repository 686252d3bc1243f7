"""The channel of a query: moved where it has to be, and never in the way."""

import logging
from collections.abc import Iterator

import pytest

from nsqlake.spark.errors import NodeError, RefusedError
from nsqlake.spark.offsets import LogPosition, Positions, SourceKey
from nsqlake.spark.options import Access
from nsqlake.spark.progress import COMMIT_TIMEOUT_S, ProgressChannel
from tests.fakes.http_node import STALL, FakeHttpNode, Reply, http_node, json_reply

LOG = "f00d"
NOWHERE = SourceKey("t", "127.0.0.1:1")


@pytest.fixture
def node() -> Iterator[FakeHttpNode]:
    with http_node() as node:
        node.answers["/channel/create"] = Reply()
        node.answers["/channel/commit"] = json_reply({"offset": 40})
        yield node


def channel(name: str = "spark", **access: object) -> ProgressChannel:
    return ProgressChannel(name, Access(**{"retries": 0, "timeout_s": 5.0, **access}))  # type: ignore[arg-type]


def positions(node: FakeHttpNode, **offsets: int) -> Positions:
    return Positions((SourceKey(topic, node.address), LogPosition(at, LOG)) for topic, at in offsets.items())


def test_a_channel_is_made_once_where_the_query_begins(node: FakeHttpNode) -> None:
    progress = channel()

    progress.ensure(positions(node, t=5))
    progress.ensure(positions(node, t=9))

    (asked,) = node.asked
    assert (asked.path, asked.params) == ("/channel/create", {"topic": "t", "channel": "spark", "from": "5"})


def test_a_channel_that_cannot_be_made_yet_is_made_later(node: FakeHttpNode) -> None:
    gone = json_reply({"message": "OFFSET_OUT_OF_RANGE"}, 416)
    node.answers["/channel/create"] = [gone, json_reply({"message": "FORBIDDEN"}, 403)]
    progress = channel()

    progress.ensure(positions(node, t=5))

    with pytest.raises(RefusedError, match="FORBIDDEN"):
        progress.ensure(positions(node, t=6))


def test_without_a_name_nothing_is_asked(node: FakeHttpNode) -> None:
    progress = channel("")

    progress.ensure(positions(node, t=5))
    progress.commit(positions(node, t=5))

    assert not node.asked


def test_a_channel_knows_where_it_is(node: FakeHttpNode) -> None:
    assert channel().cursor(SourceKey("t", node.address), 7) == 40
    assert node.asked[0].params["from"] == "7"


def test_junk_for_a_cursor_names_the_node(node: FakeHttpNode) -> None:
    node.answers["/channel/commit"] = json_reply([])

    with pytest.raises(NodeError, match=node.address):
        channel().cursor(SourceKey("t", node.address), 7)


def test_only_what_has_moved_is_committed(node: FakeHttpNode) -> None:
    progress = channel()

    progress.commit(positions(node, t=5, u=6))
    progress.commit(positions(node, t=5, u=7))

    assert [(asked.params["topic"], asked.params["offset"]) for asked in node.asked] == [
        ("t", "5"),
        ("u", "6"),
        ("u", "7"),
    ]


def test_a_commit_that_fails_is_logged_and_made_up_for(
    node: FakeHttpNode, caplog: pytest.LogCaptureFixture
) -> None:
    node.answers["/channel/commit"] = [Reply(status=503), json_reply({"offset": 5})]
    progress = channel()

    with caplog.at_level(logging.WARNING):
        progress.commit(positions(node, t=5))
    progress.commit(positions(node, t=5))

    assert "channel spark not moved: node" in caplog.text
    assert len(node.asked) == 2


def test_a_channel_that_somebody_deleted_is_made_again(node: FakeHttpNode) -> None:
    progress = channel()
    progress.ensure(positions(node, t=5))
    node.answers["/channel/commit"] = json_reply({"message": "CHANNEL_NOT_FOUND"}, 404)

    progress.commit(positions(node, t=6))
    progress.ensure(positions(node, t=6))

    assert node.paths() == ["/channel/create", "/channel/commit", "/channel/create"]


def test_a_node_that_fails_is_asked_once_and_does_not_keep_others_from_being_told(
    node: FakeHttpNode, caplog: pytest.LogCaptureFixture
) -> None:
    down = Positions({NOWHERE: LogPosition(1, LOG), SourceKey("u", NOWHERE.node): LogPosition(1, LOG)})

    channel().commit(Positions({**down, **positions(node, t=5)}))

    assert caplog.text.count("not moved") == 1
    assert node.paths() == ["/channel/commit"]


def test_a_hanging_node_does_not_hang_the_query(node: FakeHttpNode, caplog: pytest.LogCaptureFixture) -> None:
    node.answers["/channel/commit"] = STALL
    progress = channel(timeout_s=0.05, retries=9)

    progress.commit(positions(node, t=5, u=5, v=5))

    assert len(node.asked) == 1
    assert "timed out" in caplog.text


def test_many_slow_calls_do_not_add_up(node: FakeHttpNode, caplog: pytest.LogCaptureFixture) -> None:
    times = iter([0.0, 0.0, COMMIT_TIMEOUT_S + 1])
    progress = ProgressChannel("spark", Access(retries=0), clock=lambda: next(times))

    progress.commit(positions(node, t=5, u=5, v=5))

    assert len(node.asked) == 1
    assert f"channel spark not moved: node {node.address}: took longer than 5 s" in caplog.text
