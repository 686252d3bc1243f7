from pathlib import Path

from nsqlake.topiclog.atomic_file import write_atomic
from nsqlake.topiclog.files import OS_FILES
from nsqlake.topiclog.identity import IDENTITY_NAME, Identity, read_identity, write_identity
from tests.topiclog.support import SALT, UUID


def test_an_identity_is_read_back(tmp_path: Path) -> None:
    identity = Identity(UUID, SALT, epoch=3, floor=2**53)

    write_identity(OS_FILES, str(tmp_path), identity)

    assert read_identity(OS_FILES, str(tmp_path)) == identity


def test_there_is_none_in_an_empty_directory(tmp_path: Path) -> None:
    assert read_identity(OS_FILES, str(tmp_path)) is None


def test_a_file_of_another_shape_is_no_identity(tmp_path: Path) -> None:
    write_atomic(OS_FILES, str(tmp_path / IDENTITY_NAME), b"something else")

    assert read_identity(OS_FILES, str(tmp_path)) is None
