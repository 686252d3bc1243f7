from datetime import UTC, datetime

import pytest

from nsqlake.apps.nsq_to_file.errors import MissingRevisionError
from nsqlake.apps.nsq_to_file.files.file_names import FileNames, Host, fill_template, with_revision

HOST = Host("web1.example.com", 4711)


def fill(
    text: str, *, topic: str = "orders", host: str = "h", is_gzip: bool = False, has_revisions: bool = True
) -> str:
    return fill_template(text, topic=topic, host=host, pid=4711, is_gzip=is_gzip, has_revisions=has_revisions)


def test_topic_host_and_process_are_filled_in_everywhere() -> None:
    name = fill("<TOPIC>/<TOPIC>.<HOST>.<PID><REV>.<DATETIME>")

    assert name == "orders/orders.h.4711<REV>.<DATETIME>"


def test_without_rotation_there_are_no_revisions() -> None:
    assert fill("<TOPIC><REV>.log", has_revisions=False) == "orders.log"


def test_with_rotation_a_place_for_the_revision_is_mandatory() -> None:
    with pytest.raises(MissingRevisionError) as caught:
        fill("<TOPIC>.log")

    text = "missing <REV> in --filename-format when gzip, rotation, or work dir enabled"
    assert (str(caught.value), caught.value.filename_format) == (text, "<TOPIC>.log")


@pytest.mark.parametrize(
    ("text", "expected"), [("a<REV>", "a<REV>.gz"), ("a<REV>.gz", "a<REV>.gz"), ("<REV>.GZ", "<REV>.GZ.gz")]
)
def test_gzip_has_its_suffix_once(text: str, expected: str) -> None:
    assert fill(text, is_gzip=True) == expected


@pytest.mark.parametrize(("topic", "expected"), [(".", "%2E/x"), ("..", "%2E%2E/x"), ("...", ".../x")])
def test_no_topic_leads_out_of_the_directory(topic: str, expected: str) -> None:
    assert fill("<TOPIC>/x", topic=topic, has_revisions=False) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "web1"),
        ("<SHORT_HOST>", "web1"),
        ("<HOSTNAME>", "web1.example.com"),
        ("a-<SHORT_HOST>-<HOSTNAME>", "a-web1-web1.example.com"),
        ("fixed", "fixed"),
    ],
)
def test_host_identifiers(text: str, expected: str) -> None:
    assert HOST.identifier(text) == expected


def test_the_name_follows_the_time() -> None:
    names = FileNames("orders<REV>.<DATETIME>/<DATETIME>.log", "%H")

    assert names.at(datetime(2026, 1, 2, 3, tzinfo=UTC)) == "orders<REV>.03/03.log"


@pytest.mark.parametrize(
    ("revision", "expected"),
    [(0, "a-000000.b-000000"), (12, "a-000012.b-000012"), (1_000_000, "a-1000000.b-1000000")],
)
def test_revisions_have_six_digits_or_more(revision: int, expected: str) -> None:
    assert with_revision("a<REV>.b<REV>", revision) == expected
