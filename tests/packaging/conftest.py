"""The distributions of the project as it stands, the wheel from the sdist; built once for each process."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[2]
PAGES = (
    "README.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "LICENSE",
    "Makefile",
    "Dockerfile",
    ".dockerignore",
    "mkdocs.yml",
)
BUILT_WITH = ("pyproject.toml", "MANIFEST.in")
FOLDERS = (
    *(".github", "docs", "examples", "dashboards", "deploy"),
    *("scripts", "proxy", "recorder", "tests", "bench", "fuzz"),
)


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with both distributions, built offline from a copy of the project."""
    copy, out = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("dist")
    for name in (*PAGES, *BUILT_WITH):
        shutil.copy(PROJECT / name, copy)
    for name in FOLDERS:
        shutil.copytree(PROJECT / name, copy / name)
    # as scripts/release does: the wheel is built from the sdist
    build = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(out), str(copy)]
    done = subprocess.run(build, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return out
