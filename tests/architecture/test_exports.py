"""What a module lists as its own is there, and what the package offers changes only on purpose."""

import importlib
import tomllib
from pathlib import Path

import pytest

import nsqlake
from tests.architecture.source import PACKAGE, ROOT, module_name, source_files

MODULES = [module_name(path) for path in source_files()]


def test_the_package_exports_these_names() -> None:
    assert nsqlake.__all__ == ["NSQ_VERSION", "__version__"]


def test_the_version_is_that_of_the_project() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]

    assert nsqlake.__version__ == project["version"]


@pytest.mark.parametrize("name", MODULES)
def test_every_exported_name_exists(name: str) -> None:
    module = importlib.import_module(name)
    exported = getattr(module, "__all__", [])

    assert [missing for missing in exported if not hasattr(module, missing)] == []
    assert len(set(exported)) == len(exported)


@pytest.mark.parametrize("name", MODULES)
def test_every_module_says_in_its_first_line_what_lives_there(name: str) -> None:
    documentation = importlib.import_module(name).__doc__

    assert documentation
    assert documentation.splitlines()[0].strip()


def test_every_command_of_the_project_has_its_module() -> None:
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["scripts"]

    for command, target in scripts.items():
        module, _, function = target.partition(":")
        assert callable(getattr(importlib.import_module(module), function))
        places = (Path(PACKAGE, "apps", f"{command}.py"), Path(PACKAGE, "apps", command, "__init__.py"))
        assert any(place.is_file() for place in places)
