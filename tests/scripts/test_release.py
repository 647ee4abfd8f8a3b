"""Tests of `make release`: it makes both distributions and says what a plain installation has; it needs a changelog."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from packaging.utils import canonicalize_name

from tests.packaging.test_environments import PLAIN, needed

PROJECT = Path(__file__).resolve().parents[2]
RELEASE = "scripts/release"


def release(folder: Path, out: Path) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"VENV": str(Path(sys.executable).parents[1])}
    return subprocess.run([folder / RELEASE, out], env=environment, capture_output=True, text=True)


@pytest.mark.real
@pytest.mark.long
def test_a_release_has_both_distributions_and_a_bill_of_what_the_wheel_needs(tmp_path: Path) -> None:
    done = release(PROJECT, tmp_path / "out")
    assert done.returncode == 0, done.stderr
    (wheel,), (sdist,), (bill,) = ((tmp_path / "out").glob(f"*{suffix}") for suffix in (".whl", ".tar.gz", ".cdx.json"))
    said = json.loads(bill.read_text())
    root = said["metadata"]["component"]
    assert bill.name == f"{root['name']}-{root['version']}.cdx.json"
    assert sdist.name == f"kafka_wiretap-{root['version']}.tar.gz"
    assert root["licenses"][0]["license"]["id"] == "Apache-2.0"
    told = {canonicalize_name(component["name"]) for component in said["components"]}
    assert told == {canonicalize_name(package.metadata["Name"]) for package in needed(wheel, PLAIN)}
    assert str(tmp_path) not in bill.read_text()
    subprocess.run(["sha256sum", "--check", "--quiet", "SHA256SUMS"], cwd=tmp_path / "out", check=True)


@pytest.mark.real
def test_a_version_that_the_changelog_does_not_tell_of_is_not_released(tmp_path: Path) -> None:
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@example.org"]
    source = tmp_path / "source"
    (source / "scripts").mkdir(parents=True)
    (source / RELEASE).write_bytes((PROJECT / RELEASE).read_bytes())
    (source / RELEASE).chmod(0o755)
    (source / "pyproject.toml").write_text('[project]\nversion = "9.9.9"\n')
    (source / "CHANGELOG.md").write_text("# Changelog\n\n## 9.9.8 (2026-01-01)\n")
    for command in (["init", "--quiet"], ["add", "."], ["commit", "--quiet", "--message", "all"]):
        subprocess.run([*git, *command], cwd=source, check=True)
    done = release(source, tmp_path / "out")
    assert (done.returncode, done.stderr) == (1, "release: CHANGELOG.md has no section for 9.9.9\n")
