import pytest

from nsqlake.client.errors import (
    ClientClosedError,
    ConnectError,
    ConnectionLostError,
    HandshakeRefusedError,
    InvalidArgumentError,
    NsqClientError,
    PublishNotSentError,
    PublishRejectedError,
    PublishUnknownError,
    ServerError,
)


@pytest.mark.parametrize(
    ("error", "text", "retriable"),
    [
        (ConnectError("h:1", "refused"), "h:1: refused", True),
        (HandshakeRefusedError("h:1", "E_BAD_TOPIC", "no"), "h:1: E_BAD_TOPIC no", True),
        (ConnectionLostError("h:1", "gone"), "h:1: gone", True),
        (ServerError("h:1", "E_INVALID", ""), "h:1: E_INVALID", False),
        (
            PublishRejectedError("t", "h:1", "E_BAD_MESSAGE", "x"),
            "publish to t at h:1: E_BAD_MESSAGE x",
            False,
        ),
        (PublishNotSentError("t", None, "no nsqd"), "publish to t: no nsqd", True),
        (PublishUnknownError("t", "h:1", "lost"), "publish to t at h:1: lost", False),
        (ClientClosedError("producer"), "producer is closed", False),
        (InvalidArgumentError("topic", "a b", "bad name"), "topic='a b': bad name", False),
    ],
)
def test_errors_say_what_happened_and_whether_to_try_again(
    error: NsqClientError, text: str, retriable: bool
) -> None:
    assert (str(error), error.retriable) == (text, retriable)


@pytest.mark.parametrize(
    ("payload", "code", "text", "fatal"),
    [
        (b"E_BAD_TOPIC PUB topic name", "E_BAD_TOPIC", "PUB topic name", True),
        (b"E_INVALID", "E_INVALID", "", True),
        (b"E_SOMETHING new", "E_SOMETHING", "new", True),
        (b"E_FIN_FAILED FIN 1 failed", "E_FIN_FAILED", "FIN 1 failed", False),
        (b"E_REQ_FAILED", "E_REQ_FAILED", "", False),
        (b"E_TOUCH_FAILED", "E_TOUCH_FAILED", "", False),
        (b"E_PUB_FAILED disk full", "E_PUB_FAILED", "disk full", False),
        (b"", "", "", True),
    ],
)
def test_error_frames_are_split_at_the_first_space(payload: bytes, code: str, text: str, fatal: bool) -> None:
    error = ServerError.decode("h:1", payload)

    assert (error.code, error.text, error.fatal) == (code, text, fatal)


def test_what_a_server_says_cannot_forge_or_flood_a_log() -> None:
    error = ServerError.decode("h:1", b"E_X a\nb\xff\x1b" + b"x" * 100_000)

    assert error.text.startswith("a\\x0ab\\xff\\x1bxx")
    assert len(str(error)) < 1100


@pytest.mark.parametrize(
    ("code", "permanent"), [("E_BAD_TOPIC", True), ("E_UNAUTHORIZED", True), ("E_SUB_FAILED", False)]
)
def test_refusals_that_do_not_cure_themselves_are_permanent(code: str, permanent: bool) -> None:
    assert HandshakeRefusedError("h:1", code, "").permanent is permanent
    assert ConnectError("h:1", "x").permanent is False


def test_values_are_shortened_and_bodies_not_shown() -> None:
    long = InvalidArgumentError("topic", "x" * 1000, "too long")
    body = InvalidArgumentError("body", memoryview(b"secret"), "too long")

    assert len(long.value) == 64
    assert body.value == "<6 bytes>"
    assert isinstance(body, ValueError)
