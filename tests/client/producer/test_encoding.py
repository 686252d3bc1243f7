"""What a publish looks like on the wire, and what never gets there."""

from datetime import timedelta
from typing import Any

import pytest

from nsqlake.client.errors import InvalidArgumentError
from nsqlake.client.producer.encoding import (
    MAX_REMEMBERED_TOPICS,
    PublishEncoder,
    checked_timeout_s,
    json_body,
    text_body,
)
from nsqlake.wire import commands

BAD_TOPICS: list[Any] = [
    "",
    "bad topic!",
    "a" * 65,
    "a\n",
    "ä",
    "#ephemeral",
    "t#ephemera",
    "\ud800",
    b"t",
    None,
    7,
    [],
]
BAD_BODIES: list[Any] = ["text", b"", bytearray(), memoryview(b""), None, 7, [b"a"]]


def test_a_pub_is_what_the_protocol_says() -> None:
    encoder = PublishEncoder()

    assert encoder.pub("orders", b"body") == commands.pub("orders", b"body")
    assert encoder.pub("orders", b"again") == commands.pub("orders", b"again")
    assert encoder.pub("t#ephemeral", b"x") == b"PUB t#ephemeral\n\0\0\0\1x"


@pytest.mark.parametrize("body", [bytearray(b"body"), memoryview(b"body"), memoryview(b"_b_o_d_y")[1::2]])
def test_any_bytes_are_a_body(body: Any) -> None:
    assert PublishEncoder().pub("orders", body) == commands.pub("orders", b"body")


def test_a_body_that_changes_later_was_copied() -> None:
    body = bytearray(b"body")

    command = PublishEncoder().pub("orders", body)
    body[:] = b"evil"

    assert command == commands.pub("orders", b"body")


def test_an_mpub_is_what_the_protocol_says() -> None:
    bodies = [b"one", bytearray(b"two"), memoryview(b"three")]

    command, count = PublishEncoder().mpub("orders", bodies)

    assert (command, count) == (commands.mpub("orders", [b"one", b"two", b"three"]), 3)


@pytest.mark.parametrize(
    ("delay", "delay_ms"),
    [
        (0, 0),
        (1.5, 1500),
        (0.0001, 1),
        (0.3, 300),
        (1.1, 1100),
        (timedelta(minutes=1), 60_000),
        ("250ms", 250),
    ],
)
def test_a_delay_goes_out_in_whole_milliseconds_and_never_shorter(delay: Any, delay_ms: int) -> None:
    assert PublishEncoder().dpub("orders", delay, b"x") == commands.dpub("orders", delay_ms, b"x")


@pytest.mark.parametrize("topic", BAD_TOPICS)
def test_a_bad_topic_is_refused_by_every_command(topic: Any) -> None:
    encoder = PublishEncoder()
    for publish in (
        lambda: encoder.pub(topic, b"x"),
        lambda: encoder.mpub(topic, [b"x"]),
        lambda: encoder.dpub(topic, 1, b"x"),
    ):
        with pytest.raises(InvalidArgumentError) as caught:
            publish()
        assert caught.value.argument == "topic"


@pytest.mark.parametrize("body", BAD_BODIES)
def test_a_bad_body_is_refused_by_every_command(body: Any) -> None:
    encoder = PublishEncoder()
    for publish, argument in (
        (lambda: encoder.pub("t", body), "body"),
        (lambda: encoder.mpub("t", [b"good", body]), "bodies[1]"),
        (lambda: encoder.dpub("t", 1, body), "body"),
    ):
        with pytest.raises(InvalidArgumentError) as caught:
            publish()
        assert caught.value.argument == argument


@pytest.mark.parametrize(
    "bodies", [b"one", bytearray(b"one"), memoryview(b"one"), "one", [], (), iter(()), None, 7]
)
def test_one_body_or_none_is_no_multi_publish(bodies: Any) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        PublishEncoder().mpub("t", bodies)

    assert caught.value.argument == "bodies"


@pytest.mark.parametrize(
    "delay", [-1, -0.001, float("nan"), float("inf"), 1e30, "soon", "-1s", None, True, b"1"]
)
def test_a_delay_that_no_nsqd_takes_is_refused(delay: Any) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        PublishEncoder().dpub("t", delay, b"x")

    assert caught.value.argument == "delay"


def test_an_error_names_no_body() -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        PublishEncoder().mpub("t", b"secret")

    assert "secret" not in str(caught.value)


def test_topics_are_remembered_but_not_for_ever() -> None:
    encoder = PublishEncoder()

    for number in range(MAX_REMEMBERED_TOPICS + 10):
        encoder.pub(f"topic{number}", b"x")

    assert len(encoder._lines) <= MAX_REMEMBERED_TOPICS


def test_a_timeout_may_be_any_duration() -> None:
    assert checked_timeout_s(None, 30.0) == 30.0
    assert checked_timeout_s("250ms", 30.0) == 0.25
    assert checked_timeout_s(timedelta(seconds=2), 30.0) == 2.0
    for timeout in (-1, float("nan"), "never"):
        with pytest.raises(InvalidArgumentError):
            checked_timeout_s(timeout, 30.0)


def test_text_and_json_become_bytes() -> None:
    assert text_body("grüße") == "grüße".encode()
    assert json_body({"a": [1, None]}) == b'{"a":[1,null]}'
