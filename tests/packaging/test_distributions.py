"""Tests of the distributions: the sdist has all that docs name, the wheel all that a run needs, both the license."""

from __future__ import annotations

import hashlib
import tarfile
import tomllib
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from zipfile import ZipFile

import pytest

from tests.packaging.conftest import BUILT_WITH, FOLDERS, PAGES, PROJECT

# SHA-256 of https://www.apache.org/licenses/LICENSE-2.0.txt
APACHE_2_0 = "cfc7749b96f63bd31c3c42b5c471bf756814053e847c10f3eb003417bc523d30"


@pytest.fixture(scope="module")
def sdist(built: Path) -> set[str]:
    """The names in the sdist, without its top folder."""
    (archive,) = built.glob("*.tar.gz")
    with tarfile.open(archive) as tar:
        return {name.partition("/")[2] for name in tar.getnames()}


@pytest.fixture(scope="module")
def wheel(built: Path) -> Iterator[ZipFile]:
    (archive,) = built.glob("*.whl")
    with ZipFile(archive) as opened:
        yield opened


def ours(*folders: str, suffixes: tuple[str, ...] = ()) -> set[str]:
    """The project's files in these folders, named as in a distribution."""
    found = (path for folder in folders for path in (PROJECT / folder).rglob("*"))
    told = {path.relative_to(PROJECT) for path in found if path.is_file() and "__pycache__" not in path.parts}
    return {PurePosixPath(path).as_posix() for path in told if not suffixes or path.suffix in suffixes}


@pytest.mark.real
def test_the_sdist_has_every_page_and_every_folder_whole(sdist: set[str]) -> None:
    assert {*PAGES, *BUILT_WITH, *ours(*FOLDERS)} - sdist == set()


@pytest.mark.real
def test_the_sdist_has_nothing_that_tools_have_made(sdist: set[str]) -> None:
    made = {name for name in sdist if "__pycache__" in name or name.endswith((".pyc", ".so"))}
    assert made == set()


@pytest.mark.real
def test_the_wheel_has_all_code_messages_and_dashboards_and_no_tests(wheel: ZipFile) -> None:
    names = set(wheel.namelist())
    assert ours("proxy", "recorder", suffixes=(".py", ".kafka", ".typed")) - names == set()
    dashboards = {PurePosixPath(name).name for name in names if "/share/kafka-wiretap/dashboards/" in name}
    assert dashboards == {"alerts.yml", *(path.name for path in (PROJECT / "dashboards").glob("*.json"))}
    assert {PurePosixPath(name).parts[0] for name in names if name.endswith(".py")} == {"proxy", "recorder"}


@pytest.mark.real
def test_the_license_is_apaches_own_text_wherever_it_stands(wheel: ZipFile) -> None:
    (shipped,) = (name for name in wheel.namelist() if name.endswith(".dist-info/licenses/LICENSE"))
    for text in ((PROJECT / "LICENSE").read_bytes(), wheel.read(shipped)):
        assert hashlib.sha256(text).hexdigest() == APACHE_2_0


def test_the_image_is_built_with_the_license_too() -> None:
    """The image builds the wheel from the copied files, without those that .dockerignore excludes."""
    copied = {word for line in (PROJECT / "Dockerfile").read_text().splitlines() for word in line.split()}
    assert "LICENSE" in copied
    assert "!LICENSE" in (PROJECT / ".dockerignore").read_text().splitlines()


def test_developers_install_the_build_backend() -> None:
    told = tomllib.loads((PROJECT / "pyproject.toml").read_text())
    (oldest,) = told["build-system"]["requires"]
    assert any(wanted.startswith(oldest + ",") for wanted in told["project"]["optional-dependencies"]["dev"])
