"""The decision about a batch, in a file beside Spark's own."""

from pathlib import Path

import pytest

from nsqlake.spark.decisions import FILE_NAME, Decision, DecisionFile, StagedPart
from nsqlake.spark.errors import OptionError

DECISION = Decision("query.7", (StagedPart("n1:4151", 0, 2**61, 3, 1000), StagedPart("n2:4151", 1, 5, 1, 1)))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "check point%20ü"
    folder.mkdir()
    (folder / "metadata").write_text('{"id":"query"}')
    return folder


def test_a_decision_is_read_as_it_was_written(folder: Path) -> None:
    file = DecisionFile(str(folder))
    assert file.read() is None

    file.write(Decision("query.6", ()))
    file.write(DECISION)

    assert DecisionFile(str(folder)).read() == DECISION
    assert sorted(path.name for path in folder.iterdir()) == ["metadata", FILE_NAME]


@pytest.mark.parametrize("form", ["{}", "{}/", "file:{}", "file://{}", "file://{}/"])
def test_a_local_checkpoint_may_be_written_as_spark_takes_it(folder: Path, form: str) -> None:
    file = DecisionFile(form.format(folder))
    file.check()

    file.write(DECISION)

    assert DecisionFile(str(folder)).read() == DECISION


def test_a_checkpoint_may_be_relative(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder.parent)
    file = DecisionFile(folder.name)
    file.check()

    file.write(DECISION)

    assert DecisionFile(str(folder)).read() == DECISION


def test_a_checkpoint_where_spark_has_nothing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="there is no metadata of Spark; give it as a full URI"):
        DecisionFile(str(tmp_path)).check()


@pytest.mark.parametrize("text", ["", "{", "[]", '{"txn": "a.1"}', '{"txn": "a.1", "parts": [{"x": 1}]}'])
def test_a_damaged_file_is_an_error(folder: Path, text: str) -> None:
    (folder / FILE_NAME).write_text(text)

    with pytest.raises(OptionError, match=f"{FILE_NAME} is damaged"):
        DecisionFile(str(folder)).read()


@pytest.mark.parametrize(
    ("checkpoint", "text"),
    [
        ("", "option checkpointLocation: is needed"),
        ("dbfs:/a b", "option checkpointLocation 'dbfs:/a b': cannot be used for delivery=exactly-once"),
        ("nonsense://x/y", "Unrecognized filesystem"),
    ],
)
def test_a_checkpoint_that_cannot_be_used_is_named(checkpoint: str, text: str) -> None:
    with pytest.raises(OptionError) as raised:
        DecisionFile(checkpoint)

    assert text in str(raised.value)


def test_a_checkpoint_that_cannot_be_written_is_named(folder: Path) -> None:
    (folder / f"{FILE_NAME}.new").mkdir()

    with pytest.raises(OptionError, match="cannot be used"):
        DecisionFile(str(folder)).write(DECISION)
