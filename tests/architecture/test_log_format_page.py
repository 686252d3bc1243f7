"""The page about the log's bytes has the numbers of the code."""

import re

import msgspec

from nsqlake.nsqd.core import journal
from nsqlake.nsqd.core.journal import JOURNAL_MAGIC, Kind, encode_batch
from nsqlake.nsqd.transactions import staged_records
from nsqlake.nsqd.transactions.applying import TxnTag
from nsqlake.nsqd.transactions.store import Commit, Done
from nsqlake.topiclog import identity
from nsqlake.topiclog.block import BLOCK_HEADER, MAGIC
from nsqlake.topiclog.segment import EPOCH_JUMP, SEGMENT_HEADER_BYTES
from tests.architecture.source import ROOT

PAGE = (ROOT / "docs" / "log-format.md").read_text(encoding="utf-8")


def section(title: str) -> str:
    return PAGE.split(f"\n## {title}\n")[1].split("\n## ")[0]


def fixed_bytes(text: str) -> int:
    """The sum of the fields of a table whose size does not depend on the content."""
    return sum(int(size) for size in re.findall(r"^\| [^|]+ \| (\d+) \|", text, re.MULTILINE))


def test_headers_add_up_to_the_sizes_of_the_code() -> None:
    assert fixed_bytes(section("Block")) == BLOCK_HEADER.size == 52
    assert fixed_bytes(section("Segment")) == SEGMENT_HEADER_BYTES == 40
    assert fixed_bytes(section("Identity")) == identity._FIELDS.size == 32
    assert fixed_bytes(section("Staged part")) == staged_records.HEADER.size == 34
    assert "The header has 52 bytes" in section("Block")
    assert "The header has 34 bytes" in section("Staged part")
    assert "A header of 40 bytes" in section("Segment")


def test_magics_are_those_of_the_code() -> None:
    assert f"`{MAGIC.decode()}`" in section("Block")
    assert f"`{JOURNAL_MAGIC.decode()}`" in section("Journal")
    assert f"`{staged_records.MAGIC.decode()}`" in section("Staged part")


def test_records_of_transactions_are_those_of_the_code() -> None:
    commit, done = re.findall(r"```json\n(.*)\n```", section("Commit and done"))
    tag = TxnTag("query-1.0", 0, 2)

    assert msgspec.json.encode(msgspec.json.decode(commit, type=Commit)).decode() == commit
    assert msgspec.json.encode(msgspec.json.decode(done, type=Done)).decode() == done
    assert f"`{msgspec.json.encode(tag).decode()}`" in section("Block")


def test_journal_entries_are_those_of_the_code() -> None:
    rows = re.findall(r"^\| ([A-Z]+) \| (\d+) \|", section("Journal"), re.MULTILINE)

    assert {name: int(number) for name, number in rows} == {kind.name: kind.value for kind in Kind}
    entry_bytes = len(encode_batch([(1, 0, 0, 0)], 0)) - journal._BATCH.size
    assert f"An entry has {entry_bytes} bytes" in section("Journal")


def test_the_jump_of_offsets_is_that_of_the_code() -> None:
    assert EPOCH_JUMP == 2**30
    assert "jumps by 2^30" in section("Offsets and ids")
