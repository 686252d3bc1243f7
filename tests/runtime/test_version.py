import re

from nsqlake.runtime.version import version_line


def test_the_version_names_program_release_and_interpreter() -> None:
    assert re.fullmatch(r"nsqd v1\.3\.0 \(built w/python3\.\d+\.\d+\)", version_line("nsqd"))
