import asyncio
import logging
from typing import Any

import pytest

from nsqlake.apps.nsq_to_nsq.forwarding import Forwarding
from nsqlake.apps.nsq_to_nsq.options import NsqToNsqOptions
from nsqlake.apps.tool_support.progress import Progress
from nsqlake.client.errors import ConnectError, NsqClientError, PublishRejectedError
from nsqlake.errors import NsqlakeError
from nsqlake.testing.messages import make_message

A, B = "a:4150", "b:4150"


class FakeNsqd:
    """Remembers what was published; may fail in one way."""

    def __init__(self, error: NsqClientError | None = None) -> None:
        self.error = error
        self.published: list[tuple[str, bytes]] = []

    async def publish(self, topic: str, body: bytes) -> None:
        if self.error is not None:
            raise self.error
        self.published.append((topic, body))


def forward(nsqds: dict[str, FakeNsqd], *bodies: bytes, **options: Any) -> list[str]:
    """What was raised, message by message."""
    raised = []

    async def scenario() -> None:
        made = NsqToNsqOptions(destinations=tuple(nsqds), **options)
        forwarding = Forwarding(made, nsqds, Progress("published"), now_s=lambda: 1.0)
        for body in bodies:
            try:
                await forwarding.handle(make_message(body, topic="orders"))
            except NsqlakeError as error:
                raised.append(str(error))

    asyncio.run(scenario())
    return raised


def bodies_of(nsqd: FakeNsqd) -> list[bytes]:
    return [body for _, body in nsqd.published]


def test_a_message_keeps_its_topic() -> None:
    nsqd = FakeNsqd()

    forward({A: nsqd}, b"\xff")

    assert nsqd.published == [("orders", b"\xff")]


def test_a_destination_topic_holds_for_all() -> None:
    nsqd = FakeNsqd()

    forward({A: nsqd}, b"1", destination_topic="copy")

    assert nsqd.published == [("copy", b"1")]


@pytest.mark.parametrize(("mode", "first"), [("hostpool", A), ("round-robin", B), ("bogus", B)])
def test_nsqds_take_turns(mode: str, first: str) -> None:
    nsqds = {A: FakeNsqd(), B: FakeNsqd()}

    forward(nsqds, b"1", b"2", b"3", mode=mode)

    assert bodies_of(nsqds[first]) == [b"1", b"3"]


def test_an_unknown_mode_is_warned_about(caplog: pytest.LogCaptureFixture) -> None:
    forward({A: FakeNsqd()}, b"1", mode="bogus")

    assert (
        "--mode 'bogus' is none of round-robin, hostpool, epsilon-greedy: taken for round-robin"
        in caplog.text
    )


def test_an_nsqd_that_failed_is_left_out() -> None:
    nsqds = {A: FakeNsqd(ConnectError(A, "connection refused")), B: FakeNsqd()}

    raised = forward(nsqds, b"1", b"2", b"3")

    assert raised == ["a:4150: connection refused"]
    assert bodies_of(nsqds[B]) == [b"2", b"3"]


def test_what_is_no_json_is_dropped_and_told_without_its_body(caplog: pytest.LogCaptureFixture) -> None:
    nsqd = FakeNsqd()

    raised = forward({A: nsqd}, b"[1,2]", b"secret", b"null", whitelist_json_fields=("a",))

    assert (raised, bodies_of(nsqd)) == ([], [b"{}"])
    assert caplog.text.count("ERROR: Unable to decode json: message ") == 2
    assert "secret" not in caplog.text


def test_a_required_value_without_its_field_fails_the_message() -> None:
    raised = forward({A: FakeNsqd()}, b'{"b":1}', require_json_field="a", require_json_value="1")

    assert raised == ["ERROR: missing field to check required value"]


def test_every_answer_counts_for_the_report_but_no_lost_connection(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "nsqlake")
    nsqds = {A: FakeNsqd(PublishRejectedError("orders", A, "E_PUB_FAILED", "full"))}

    forward(nsqds, *([b"x"] * 6), status_every=5)
    forward({A: FakeNsqd(ConnectError(A, "refused"))}, *([b"x"] * 6), status_every=5)

    reports = [line for line in caplog.messages if "finished" in line]
    assert [line.split(" - ")[0] for line in reports] == ["[aggregate]: finished 5"]
