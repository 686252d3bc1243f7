"""The reader of client commands: the same values however the bytes arrive, whatever the bytes."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from tests.wire.command_listener import (
    ID,
    Listener,
    drain,
    fin,
    int32,
    listen,
    mpub,
    new_reader,
    pub,
    sized,
)

BODIES = st.binary(min_size=1, max_size=30)
COMMANDS = st.one_of(
    st.builds(pub, BODIES),
    st.builds(pub, BODIES, st.sampled_from([b"t", b"u"])),
    st.builds(lambda body, count: pub(body) * count, BODIES, st.integers(1, 30)),
    st.builds(mpub, st.lists(BODIES, min_size=1, max_size=6), st.sampled_from([b"t", b"u"])),
    st.builds(lambda body, count: mpub([body] * count), BODIES, st.integers(1, 30)),
    st.builds(lambda body: b"DPUB t 10\n" + sized(body), BODIES),
    st.builds(
        lambda first, count: b"".join(map(fin, range(first, first + count))),
        st.integers(0, 99),
        st.integers(1, 30),
    ),
    st.builds(lambda body: b"IDENTIFY\n" + sized(body), BODIES),
    st.sampled_from([b"NOP\n", b"RDY 10\n", b"SUB a b\r\n", b"CLS\n", b"\n", b"REQ %b 5\n" % ID]),
)
STREAMS = st.lists(COMMANDS, max_size=6).map(b"".join)


def split_at(data: bytes, cuts: list[int]) -> list[bytes]:
    places = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    return [data[begin:end] for begin, end in pairwise(places)]


@given(STREAMS, st.lists(st.integers(0, 10**6), max_size=8))
def test_any_split_of_good_input_gives_the_same_values(data: bytes, cuts: list[int]) -> None:
    whole = listen([data])

    assert whole[1] == ""
    assert listen(split_at(data, cuts)) == whole
    assert listen(data[i : i + 1] for i in range(len(data))) == whole


@given(STREAMS, st.integers(0, 10**6), st.binary(max_size=8), st.lists(st.integers(0, 10**6), max_size=6))
def test_any_split_of_broken_input_gives_the_same_values_and_the_same_error(
    data: bytes, at: int, junk: bytes, cuts: list[int]
) -> None:
    at %= len(data) + 1
    broken = data[:at] + junk + data[at + len(junk) // 2 :]
    whole = listen([broken])

    assert listen(split_at(broken, cuts)) == whole
    assert listen(broken[i : i + 1] for i in range(len(broken))) == whole


@given(
    st.lists(
        st.binary(max_size=60) | st.sampled_from([b"FIN ", b"PUB t\n", b"MPUB t\n", int32(9)]), max_size=12
    )
)
def test_any_bytes_give_values_or_a_protocol_error(parts: list[bytes]) -> None:
    listen(parts)


@given(st.lists(COMMANDS, max_size=10))
def test_commands_one_by_one_give_the_same_whether_taken_whole_or_fed(commands: list[bytes]) -> None:
    reader, listener = new_reader(), Listener()

    for command in commands:
        item = reader.take_whole(command)
        if item is not None:
            listener.hear(item)
            continue
        reader.feed(command)
        for found in drain(reader):
            listener.hear(found)

    assert listener.events == listen(commands)[0]
