"""Answers to publishes, in order."""

import pytest

from nsqlake.nsqd.answers import Answers
from nsqlake.wire.frames import OK_FRAME, FrameType, encode_frame


class Sent(list[bytes]):
    """What went out, and the answers it came from."""

    def __init__(self) -> None:
        super().__init__()
        self.answers = Answers(self.append)


def failed(text: bytes) -> bytes:
    return encode_frame(FrameType.ERROR, text)


def test_answer_goes_out_as_soon_as_it_is_known() -> None:
    sent = Sent()
    answer = sent.answers.expect(b"PUB", 1)
    assert sent.answers

    answer.succeed()

    assert sent == [OK_FRAME]
    assert not sent.answers


def test_run_of_publishes_is_answered_by_as_many_frames() -> None:
    sent = Sent()

    sent.answers.expect(b"PUB", 3).succeed()

    assert sent == [OK_FRAME * 3]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (b"PUB", b"E_PUB_FAILED PUB failed disk full"),
        (b"MPUB", b"E_MPUB_FAILED MPUB failed disk full"),
        (b"DPUB", b"E_DPUB_FAILED DPUB failed disk full"),
    ],
)
def test_failure_has_the_code_of_its_command(name: bytes, text: bytes) -> None:
    sent = Sent()

    sent.answers.expect(name, 2).fail("disk full")

    assert sent == [failed(text) * 2]


def test_answers_wait_for_those_before_them() -> None:
    sent = Sent()
    first, second, third = (sent.answers.expect(b"PUB", 1) for _ in range(3))
    second.succeed()
    assert sent == []

    first.fail("exiting")

    assert sent == [failed(b"E_PUB_FAILED PUB failed exiting") + OK_FRAME]
    third.succeed()
    assert sent[1:] == [OK_FRAME]


def test_other_frames_keep_their_place_among_the_answers() -> None:
    sent = Sent()
    sent.answers.append(b"now")
    first = sent.answers.expect(b"PUB", 1)
    sent.answers.append(b"between")
    second = sent.answers.expect(b"PUB", 1)
    assert sent == [b"now"]

    second.succeed()
    first.succeed()

    assert b"".join(sent) == b"now" + OK_FRAME + b"between" + OK_FRAME


def test_whoever_waits_hears_once_when_all_are_answered() -> None:
    sent = Sent()
    heard: list[int] = []
    first, second = sent.answers.expect(b"PUB", 1), sent.answers.expect(b"PUB", 1)
    sent.answers.on_empty = lambda: heard.append(len(sent))

    first.succeed()
    assert heard == []
    second.succeed()
    sent.answers.expect(b"PUB", 1).succeed()

    assert heard == [2]


def test_lone_publish_is_answered_again_and_again() -> None:
    sent = Sent()

    for _ in range(3):
        sent.answers.expect_one().succeed()

    assert sent == [OK_FRAME] * 3
    assert not sent.answers


def test_lone_publish_behind_another_keeps_its_place() -> None:
    sent = Sent()
    first, second = sent.answers.expect_one(), sent.answers.expect_one()

    second.fail("disk full")
    assert sent == []
    first.succeed()

    assert b"".join(sent) == OK_FRAME + failed(b"E_PUB_FAILED PUB failed disk full")


def test_lone_publish_that_failed_leaves_nothing_to_the_next() -> None:
    sent = Sent()
    sent.answers.expect_one().fail("disk full")

    sent.answers.expect_one()

    assert sent == [failed(b"E_PUB_FAILED PUB failed disk full")]
    assert sent.answers
