"""The distributions of the project as it stands, built once for each process."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[2]
PAGES = ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "LICENSE", "Makefile", "Dockerfile", ".dockerignore")
BUILT_WITH = ("pyproject.toml", "MANIFEST.in")
FOLDERS = ("docs", "examples", "dashboards", "deploy", "scripts", "proxy", "recorder", "tests", "bench", "fuzz")


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with both distributions, built offline from a copy of the project."""
    copy, out = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("dist")
    for name in (*PAGES, *BUILT_WITH):
        shutil.copy(PROJECT / name, copy)
    for name in FOLDERS:
        shutil.copytree(PROJECT / name, copy / name)
    for kind in ("sdist", "wheel"):
        build = f"import sys; from setuptools import build_meta; build_meta.build_{kind}(sys.argv[1])"
        done = subprocess.run([sys.executable, "-c", build, out], cwd=copy, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
    return out
