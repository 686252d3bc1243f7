from pathlib import Path

import pytest

from nsqlake.apps.nsq_to_file.errors import MissingRevisionError
from nsqlake.apps.nsq_to_file.files.encodings import GzipMembers, Plain
from nsqlake.apps.nsq_to_file.files.file_names import Host
from nsqlake.apps.nsq_to_file.files.layout import Layout, layout_of
from nsqlake.apps.nsq_to_file.options import NsqToFileOptions


def layout(**options: object) -> Layout:
    return layout_of(NsqToFileOptions(**options), "orders", Host("web1.example.com", 7))  # type: ignore[arg-type]


def test_the_defaults_are_plain_files_without_revisions() -> None:
    plain = layout()

    assert plain.names.template == "orders.web1.<DATETIME>.log"
    assert (plain.has_work_dir, plain.is_exclusive) == (False, False)
    assert isinstance(plain.new_encoding(), Plain)


@pytest.mark.parametrize(
    "options",
    [{"gzip": True}, {"rotate_size_bytes": 1}, {"rotate_interval_ns": 1}, {"work_dir": "/elsewhere"}],
)
def test_what_needs_revisions(options: dict[str, object]) -> None:
    assert "<REV>" in layout(**options).names.template
    with pytest.raises(MissingRevisionError):
        layout(**options, filename_format="x")


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"gzip": True}, True),
        ({"rotate_interval_ns": 1}, True),
        ({"rotate_size_bytes": 1}, False),
        ({"work_dir": "/elsewhere"}, False),
    ],
)
def test_which_files_are_never_continued(options: dict[str, object], expected: bool) -> None:
    assert layout(**options).is_exclusive is expected


@pytest.mark.parametrize("work_dir", ["", "OUT", "OUT/", "OUT/../out", "LINK"])
def test_the_same_directory_written_otherwise_is_no_work_dir(tmp_path: Path, work_dir: str) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "out")
    named = work_dir.replace("OUT", str(tmp_path / "out")).replace("LINK", str(tmp_path / "link"))

    assert not layout(output_dir=str(tmp_path / "out"), work_dir=named).has_work_dir


def test_gzip_has_its_level_and_every_file_an_encoder_of_its_own() -> None:
    compressed = layout(gzip=True, gzip_level=3)

    assert compressed.gzip_level == 3
    assert isinstance(compressed.new_encoding(), GzipMembers)
    assert compressed.new_encoding() is not compressed.new_encoding()
    assert layout(gzip_level=3).gzip_level == 0


@pytest.mark.parametrize(
    ("name", "expected"),
    [("a<REV>", "/out/a-000003"), ("/b/a<REV>", "/out/b/a-000003"), ("b//./a<REV>", "/out/b/a-000003")],
)
def test_every_name_is_below_the_directories(name: str, expected: str) -> None:
    separate = layout(output_dir="/out/", work_dir="/work")

    assert separate.output_path(name, 3) == expected
    assert separate.work_path(name, 3) == expected.replace("/out", "/work")
