"""Single publishes of one turn."""

from nsqlake.nsqd.core.gathering import GATHER_BYTES, GatheredBlock, Gathering
from nsqlake.wire.command_reader import Messages
from tests.topiclog.support import framed


def messages(*bodies: bytes) -> Messages:
    parts = framed(bodies)
    size, starts = parts.get("record_size", 0), parts.get("starts")
    return Messages(b"PUB", parts["records"], len(bodies), size, starts, commands=len(bodies))


def gathered(*parts: Messages) -> GatheredBlock[str]:
    gathering: Gathering[str] = Gathering()
    for number, part in enumerate(parts):
        gathering.add(part, f"w{number}")
    (block,) = gathering.take()
    return block


def check_framing(block: GatheredBlock[str], *bodies: bytes) -> None:
    """The block says of itself what framing all bodies at once says."""
    expected = framed(bodies)
    assert block.records == expected["records"]
    assert block.count == len(bodies)
    assert (block.record_size, block.starts) == (expected.get("record_size", 0), expected.get("starts"))


def test_one_publish_is_taken_as_it_is() -> None:
    part = messages(b"one")

    block = gathered(part)

    check_framing(block, b"one")
    assert block.records is part.records


def test_publishes_of_one_size_need_no_starts() -> None:
    check_framing(gathered(messages(b"one"), messages(b"two"), messages(b"six")), b"one", b"two", b"six")


def test_publishes_of_several_sizes_have_starts() -> None:
    block = gathered(messages(b"one", b"two"), messages(b"three"), messages(b"a", b"bc"), messages(b"six"))

    check_framing(block, b"one", b"two", b"three", b"a", b"bc", b"six")


def test_run_of_several_sizes_alone_has_starts() -> None:
    check_framing(gathered(messages(b"a", b"bc")), b"a", b"bc")


def test_everybody_waits_once_however_many_records_he_brought() -> None:
    block = gathered(messages(b"a", b"b"), messages(b"c"))

    assert block.waiters == ["w0", "w1"]


def test_single_records_and_runs_become_one_block() -> None:
    gathering: Gathering[str] = Gathering()
    gathering.add_one(messages(b"one").records, "w0")
    gathering.add(messages(b"a", b"bc"), "w1")
    gathering.add_one(messages(b"three").records, "w2")

    (block,) = gathering.take()

    check_framing(block, b"one", b"a", b"bc", b"three")
    assert block.waiters == ["w0", "w1", "w2"]


def test_single_records_of_one_size_need_no_starts() -> None:
    gathering: Gathering[str] = Gathering()
    for number, body in enumerate((b"one", b"two")):
        gathering.add_one(messages(body).records, f"w{number}")

    (block,) = gathering.take()

    check_framing(block, b"one", b"two")


def test_block_ends_before_it_grows_too_large() -> None:
    gathering: Gathering[str] = Gathering()
    for _ in range(5):
        gathering.add(messages(b"x" * (GATHER_BYTES // 2 - 4)), "w")

    blocks = gathering.take()

    assert [block.count for block in blocks] == [2, 2, 1]
    assert all(block.size <= GATHER_BYTES for block in blocks)


def test_publish_larger_than_a_block_is_a_block_of_its_own() -> None:
    gathering: Gathering[str] = Gathering()
    for body in (b"a", b"x" * GATHER_BYTES, b"b"):
        gathering.add(messages(body), "w")

    assert [block.count for block in gathering.take()] == [1, 1, 1]


def test_nothing_is_left_after_taking() -> None:
    gathering: Gathering[str] = Gathering()
    assert not gathering
    gathering.add(messages(b"a"), "w")
    assert gathering

    gathering.take()

    assert not gathering
    assert gathering.take() == []
