"""The reader of client commands: lines, bodies and runs, and NSQ's errors in NSQ's order."""

import numpy as np
import pytest

from nsqlake.wire.command_reader import Body, FinishRun, Line, Messages, decode_finish_run
from nsqlake.wire.errors import ClientError, StreamError
from tests.wire.command_listener import (
    ID,
    MAX_BODY,
    MAX_MSG,
    bodies_of,
    drain,
    error_of,
    fin,
    int32,
    items_of,
    listen,
    mpub,
    new_reader,
    pub,
    sized,
)

# Lines


def test_line_is_split_at_single_spaces() -> None:
    (line,) = items_of(b"SUB a  b\n")

    assert isinstance(line, Line)
    assert (line.name, line.params) == (b"SUB", [b"a", b"", b"b"])


@pytest.mark.parametrize(
    ("data", "name", "params"),
    [
        (b"NOP\r\n", b"NOP", []),
        (b"NOP\r\r\n", b"NOP\r", []),
        (b"\r\n", b"", []),
        (b"\n", b"", []),
        (b" \n", b"", [b""]),
        (b"RDY \n", b"RDY", [b""]),
        (b"FIN\n", b"FIN", []),
        (b"FIN short\n", b"FIN", [b"short"]),
        (b"FIN %b\r\n" % ID, b"FIN", [ID]),
        (b"FIN %b extra\n" % ID, b"FIN", [ID, b"extra"]),
    ],
)
def test_unusual_line_is_taken_as_it_stands(data: bytes, name: bytes, params: list[bytes]) -> None:
    (line,) = items_of(data)

    assert isinstance(line, Line)
    assert (line.name, line.params) == (name, params)


def test_line_of_16384_bytes_is_the_longest() -> None:
    (line,) = items_of(b"x" * 16383 + b"\n")

    assert isinstance(line, Line)
    assert len(line.name) == 16383
    with pytest.raises(StreamError, match="command line too long"):
        items_of(b"x" * 16384 + b"\n")


def test_endless_line_is_given_up_before_it_ends() -> None:
    reader = new_reader()
    reader.feed(b"x" * 16383)
    assert reader.next_item() is None
    reader.feed(b"x")

    with pytest.raises(StreamError, match="command line too long"):
        reader.next_item()


# Bodies


def test_line_comes_before_its_body_so_that_it_can_be_refused_first() -> None:
    reader = new_reader()
    reader.feed(b"IDENTIFY\n" + sized(b"{}") + b"NOP\n")

    line, body, nop = drain(reader)

    assert isinstance(line, Line)
    assert isinstance(body, Body)
    assert (body.name, body.data) == (b"IDENTIFY", b"{}")
    assert isinstance(nop, Line)
    assert not reader.is_amid_command


def test_deferred_publish_is_one_message() -> None:
    line, messages = items_of(b"DPUB t 5\n" + sized(b"later"))

    assert isinstance(line, Line)
    assert line.params == [b"t", b"5"]
    assert isinstance(messages, Messages)
    assert (messages.name, bodies_of(messages)) == (b"DPUB", [b"later"])


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (b"IDENTIFY\n", "E_BAD_BODY IDENTIFY failed to read body size"),
        (b"IDENTIFY\n" + int32(MAX_BODY + 1), "E_BAD_BODY IDENTIFY body too big 5001 > 5000"),
        (b"IDENTIFY\n" + int32(0), "E_BAD_BODY IDENTIFY invalid body size 0"),
        (b"IDENTIFY\n" + int32(5) + b"{", "E_BAD_BODY IDENTIFY failed to read body"),
        (b"AUTH\n\0\0\0", "E_BAD_BODY AUTH failed to read body size"),
        (b"AUTH\n" + int32(MAX_BODY + 1), "E_BAD_BODY AUTH body too big 5001 > 5000"),
        (b"AUTH\n" + int32(-1), "E_BAD_BODY AUTH invalid body size -1"),
        (b"AUTH\n" + int32(5) + b"sec", "E_BAD_BODY AUTH failed to read body"),
        (b"PUB t\n\0\0", "E_BAD_MESSAGE PUB failed to read message body size"),
        (b"PUB t\n" + int32(0), "E_BAD_MESSAGE PUB invalid message body size 0"),
        (b"PUB t\n" + int32(-7), "E_BAD_MESSAGE PUB invalid message body size -7"),
        (b"PUB t\n" + int32(MAX_MSG + 1), "E_BAD_MESSAGE PUB message too big 1001 > 1000"),
        (b"PUB t\n" + int32(2) + b"x", "E_BAD_MESSAGE PUB failed to read message body"),
        (b"DPUB t 1\n", "E_BAD_MESSAGE DPUB failed to read message body size"),
        (b"DPUB t 1\n" + int32(0), "E_BAD_MESSAGE DPUB invalid message body size 0"),
        (b"DPUB t 1\n" + int32(MAX_MSG + 1), "E_BAD_MESSAGE DPUB message too big 1001 > 1000"),
        (b"DPUB t 1\n" + int32(1), "E_BAD_MESSAGE DPUB failed to read message body"),
        (pub(b"x") + b"PUB t\n" + int32(0), "E_BAD_MESSAGE PUB invalid message body size 0"),
        (pub(b"x") + b"PUB t\n" + int32(9), "E_BAD_MESSAGE PUB failed to read message body"),
        (pub(b"x") * 9 + b"PUB t\n" + int32(MAX_MSG + 1), "E_BAD_MESSAGE PUB message too big 1001 > 1000"),
        (b"NOP\n", ""),
        (b"NO", ""),
    ],
)
def test_fault_of_a_body_has_nsqs_words(data: bytes, error: str) -> None:
    assert error_of(data) == error
    assert listen(data[i : i + 1] for i in range(len(data)))[1] == error


def mpub_start(size: int, *rest: int) -> bytes:
    return b"MPUB t\n" + int32(size) + b"".join(map(int32, rest))


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (b"MPUB t\n", "E_BAD_BODY MPUB failed to read body size"),
        (b"MPUB t\n\0\0\0", "E_BAD_BODY MPUB failed to read body size"),
        (mpub_start(0), "E_BAD_BODY MPUB invalid body size 0"),
        (mpub_start(-1, 0, 0), "E_BAD_BODY MPUB invalid body size -1"),
        (mpub_start(MAX_BODY + 1), "E_BAD_BODY MPUB body too big 5001 > 5000"),
        (mpub_start(20), "E_BAD_BODY MPUB failed to read message count"),
        (mpub_start(20) + b"\0\0", "E_BAD_BODY MPUB failed to read message count"),
        (mpub_start(2, 1), "E_BAD_BODY MPUB failed to read message count"),
        (mpub_start(20, 0), "E_BAD_BODY MPUB invalid message count 0"),
        (mpub_start(20, -1), "E_BAD_BODY MPUB invalid message count -1"),
        (mpub_start(20, 1000), "E_BAD_BODY MPUB invalid message count 1000"),
        (mpub_start(20, 999), "E_BAD_MESSAGE MPUB failed to read message(0) body size"),
        (mpub_start(20, 2, 1) + b"x", "E_BAD_MESSAGE MPUB failed to read message(1) body size"),
        (mpub_start(20, 2, 0), "E_BAD_MESSAGE MPUB invalid message(0) body size 0"),
        (mpub_start(20, 2, 1) + b"x" + int32(-5), "E_BAD_MESSAGE MPUB invalid message(1) body size -5"),
        (mpub_start(2000, 1, MAX_MSG + 1), "E_BAD_MESSAGE MPUB message too big 1001 > 1000"),
        (mpub_start(20, 1, 12) + b"x", "E_BAD_MESSAGE MPUB failed to read message body"),
        (mpub_start(9, 1, 5) + b"x", "E_BAD_MESSAGE MPUB failed to read message body"),
        (mpub_start(9, 2, 1) + b"x", "E_BAD_MESSAGE MPUB failed to read message(1) body size"),
        (mpub_start(10, 1, 1) + b"xy", "E_BAD_BODY MPUB body size 10 does not match its messages"),
        (mpub_start(40, 1, 1) + b"xy", "E_BAD_BODY MPUB body size 40 does not match its messages"),
        (
            mpub_start(14, 1, 1) + b"x" + sized(b"y"),
            "E_BAD_BODY MPUB body size 14 does not match its messages",
        ),
        (mpub_start(14, 2, 1) + b"x" + int32(0) + b"y", "E_BAD_MESSAGE MPUB invalid message(1) body size 0"),
        (mpub([b"x" * (MAX_MSG + 1)]), "E_BAD_MESSAGE MPUB message too big 1001 > 1000"),
        (mpub([b"x"]) + mpub_start(0), "E_BAD_BODY MPUB invalid body size 0"),
        (mpub([b"x"]) + b"MPUB t\n\0", "E_BAD_BODY MPUB failed to read body size"),
    ],
)
def test_fault_of_an_mpub_has_nsqs_words(data: bytes, error: str) -> None:
    assert error_of(data) == error
    assert listen(data[i : i + 1] for i in range(len(data)))[1] == error


def test_wrong_size_within_an_mpub_is_refused_before_its_rest_has_come() -> None:
    reader = new_reader()
    reader.feed(mpub_start(4000, 3, 1) + b"x" + int32(0))
    reader.next_item()

    with pytest.raises(ClientError, match=r"invalid message\(1\) body size 0"):
        reader.next_item()


def test_long_mpub_is_looked_into_only_once_it_is_whole() -> None:
    bodies = [b"x" * 900] * 5
    data = mpub(bodies)
    reader = new_reader()
    reader.feed(data[:-10])
    items = drain(reader)

    reader.feed(data[-10:])

    (messages,) = drain(reader)
    assert len(items) == 1
    assert isinstance(messages, Messages)
    assert bodies_of(messages) == bodies


@pytest.mark.parametrize(
    "bodies", [[b"a"], [b"ab", b"cd"], [b"a", b"bcd", b"ef"], [b"a"] * 100, [b"", b"ab"]]
)
def test_mpub_is_one_value(bodies: list[bytes]) -> None:
    if b"" in bodies:
        assert error_of(mpub(bodies)) == "E_BAD_MESSAGE MPUB invalid message(0) body size 0"
        return

    _, messages = items_of(mpub(bodies))

    assert isinstance(messages, Messages)
    assert (messages.name, messages.commands, bodies_of(messages)) == (b"MPUB", 1, bodies)


def test_body_that_looks_like_equal_sizes_but_is_not_is_cut_by_its_sizes() -> None:
    bodies = [b"ab", b"a", b"abc"]

    _, messages = items_of(mpub(bodies))

    assert isinstance(messages, Messages)
    assert bodies_of(messages) == bodies
    assert messages.record_size == 0


# Runs


def test_repeated_mpub_line_comes_without_a_line() -> None:
    items = items_of(mpub([b"a"]) + mpub([b"b", b"c"]) + mpub([b"d"], topic=b"u"))

    assert [type(item) for item in items] == [Line, Messages, Messages, Line, Messages]


@pytest.mark.parametrize("sizes", [[3], [3] * 7, [3] * 8, [3] * 50, [3, 4], [3] * 20 + [4], [4, 3] * 20])
def test_repeated_pubs_come_as_one_run(sizes: list[int]) -> None:
    bodies = [b"%0*d" % (size, number) for number, size in enumerate(sizes)]
    _, _, *runs = items_of(pub(b"first") + b"".join(map(pub, bodies)))

    found = [body for run in runs if isinstance(run, Messages) for body in bodies_of(run)]

    assert found == bodies
    assert len(runs) <= 2
    assert sum(run.commands for run in runs if isinstance(run, Messages)) == len(bodies)


def test_run_of_pubs_ends_where_the_topic_changes() -> None:
    items = items_of(pub(b"a") * 20 + pub(b"b", topic=b"u") + pub(b"c", topic=b"u"))

    assert [item.count for item in items if isinstance(item, Messages)] == [1, 19, 1, 1]
    assert [item.params for item in items if isinstance(item, Line)] == [[b"t"], [b"u"]]


def test_run_of_fins_is_one_value() -> None:
    data = b"".join(map(fin, range(300)))

    (run,) = items_of(data)

    assert isinstance(run, FinishRun)
    assert run.lines == data


@pytest.mark.parametrize("odd", [b"NOP\n", b"FIN x\n", b"FIN %b\r\n" % ID, b"FIN\n", b"REQ %b 0\n" % ID])
def test_run_of_fins_ends_at_a_line_of_another_shape(odd: bytes) -> None:
    before, after = b"".join(map(fin, range(5))), b"".join(map(fin, range(7)))

    first, line, second = items_of(before + odd + after)

    assert isinstance(first, FinishRun)
    assert first.lines == before
    assert isinstance(line, Line)
    assert isinstance(second, FinishRun)
    assert second.lines == after


def test_incomplete_fin_waits_for_its_rest() -> None:
    reader = new_reader()
    reader.feed(fin(1) + fin(2)[:10])
    (run,) = drain(reader)

    reader.feed(fin(2)[10:])

    (rest,) = drain(reader)
    assert isinstance(run, FinishRun)
    assert isinstance(rest, FinishRun)
    assert (run.lines, rest.lines) == (fin(1), fin(2))


def test_fins_in_any_order_are_decoded_together() -> None:
    numbers = [2**64 - 1, 0, 0xDEADBEEF, 2**63]

    ids = decode_finish_run(b"".join(map(fin, numbers)))

    assert ids is not None
    assert ids.dtype == np.uint64
    assert ids.tolist() == numbers


@pytest.mark.parametrize("digits", [b"0123456789ABCDEF", b"0123456789abcdeg", b"0x23456789abcdef", bytes(16)])
def test_fin_with_other_digits_than_lower_case_hex_is_not_decoded(digits: bytes) -> None:
    assert decode_finish_run(fin(1) + b"FIN %b\n" % digits) is None


def test_flood_of_nops_is_few_items() -> None:
    items = items_of(b"NOP\n" * 1000 + b"CLS\n")

    names = [item.name for item in items if isinstance(item, Line)]
    assert len(names) == len(items) < 70
    assert set(names[:-1]) == {b"NOP"}
    assert names[-1] == b"CLS"


# The short way


def test_single_fin_is_taken_whole() -> None:
    reader = new_reader()

    run = reader.take_whole(fin(7))

    assert isinstance(run, FinishRun)
    assert run.lines == fin(7)
    assert not reader.is_amid_command


def test_pub_that_repeats_the_last_line_is_taken_whole() -> None:
    reader = new_reader()
    reader.feed(pub(b"first"))
    drain(reader)

    messages = reader.take_whole(pub(b"second"))

    assert isinstance(messages, Messages)
    assert (messages.name, messages.commands, bodies_of(messages)) == (b"PUB", 1, [b"second"])


@pytest.mark.parametrize(
    "data",
    [
        b"FIM %b\n" % ID,
        b"FIN %b " % ID,
        b"NOP\n",
        pub(b"a", topic=b"u"),
        pub(b"a") + b"N",
        pub(b"a")[:-1],
        b"PUB t\n",
        b"PUB t\n" + int32(0),
        b"PUB t\n" + sized(b"x" * (MAX_MSG + 1)),
    ],
)
def test_anything_else_is_not_taken_whole(data: bytes) -> None:
    reader = new_reader()
    reader.feed(pub(b"first"))
    drain(reader)

    assert reader.take_whole(data) is None
    assert not reader.is_amid_command


@pytest.mark.parametrize("before", [b"N", b"PUB t\n", b"PUB t\n" + int32(30), b"NOP\nNOP\n"])
def test_nothing_is_taken_whole_while_other_input_is_at_hand(before: bytes) -> None:
    reader = new_reader()
    reader.feed(before)
    reader.next_item()

    assert reader.take_whole(fin(7)) is None


def test_pub_is_not_taken_whole_before_a_line_was_seen() -> None:
    assert new_reader().take_whole(pub(b"a")) is None


# What is kept


def test_pending_bytes_count_what_waits_for_its_rest() -> None:
    reader = new_reader()
    reader.feed(b"PUB t\n" + int32(100) + b"x" * 40)
    drain(reader)
    assert reader.pending_bytes == 44

    reader.feed(b"x" * 10)
    assert (reader.next_item(), reader.pending_bytes) == (None, 54)

    reader.feed(b"x" * 50 + b"NO")
    drain(reader)
    assert reader.pending_bytes == 2
    assert reader.is_amid_command


def test_body_in_very_many_pieces_is_put_together() -> None:
    body = bytes(range(256)) * 3
    data = b"PUB t\n" + sized(body)

    events, error = listen(data[i : i + 1] for i in range(len(data)))

    assert (events, error) == ([(b"PUB", (b"t",), (body,))], "")


def test_input_fed_before_the_last_was_taken_is_kept_in_order() -> None:
    reader = new_reader()
    reader.feed(b"NOP\nRDY 1\n")
    first = reader.next_item()
    reader.feed(b"CLS\n")

    rest = drain(reader)

    assert [item.name for item in [first, *rest] if isinstance(item, Line)] == [b"NOP", b"RDY", b"CLS"]
