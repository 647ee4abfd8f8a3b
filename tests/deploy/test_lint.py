"""Tests of deploy/, the Dockerfile, the workflows and the site's settings by the linters that others use for theirs."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from yamllint import linter
from yamllint.config import YamlLintConfig

from tests.programs import program

PROJECT = Path(__file__).parents[2]
WORKFLOWS = sorted((PROJECT / ".github").rglob("*.yml"))
SITE = [PROJECT / "mkdocs.yml", PROJECT / "docs" / ".nav.yml"]
FILES = sorted((PROJECT / "deploy").rglob("*.y*ml")) + WORKFLOWS + SITE
# as long as lines of code; one document needs no mark; {a: b} as Kubernetes' documentation writes it;
# a workflow has the key `on`
RULES = """\
extends: default
rules:
  line-length: {max: 140}
  document-start: disable
  comments: {min-spaces-from-content: 1}
  truthy: {check-keys: false}
"""


@pytest.mark.parametrize("file", FILES, ids=[str(file.relative_to(PROJECT)) for file in FILES])
def test_yaml_is_written_as_yamllint_wants_it(file: Path) -> None:
    assert [str(fault) for fault in linter.run(file.read_text(), YamlLintConfig(RULES))] == []


@pytest.mark.real
def test_hadolint_finds_nothing_in_the_dockerfile() -> None:
    done = subprocess.run([program("hadolint"), "--no-color", PROJECT / "Dockerfile"], capture_output=True, text=True)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


@pytest.mark.real
def test_workflows_are_what_githubs_schema_wants() -> None:
    check = [program("check-jsonschema"), "--builtin-schema", "vendor.github-workflows"]
    done = subprocess.run([*check, *map(str, WORKFLOWS)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
