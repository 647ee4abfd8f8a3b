"""Tests that all that names the version of a release names the one of pyproject.toml."""

from __future__ import annotations

import re
import tomllib

import pytest

from tests.packaging.conftest import PROJECT

VERSION = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]["version"]


@pytest.mark.parametrize(
    ("file", "pattern"),
    [
        ("CHANGELOG.md", r"(?m)^## (\S+) \(\d{4}-\d\d-\d\d\)$"),
        ("Dockerfile", r'image\.version="(.+)"'),
        ("Dockerfile", r"-t kafka-wiretap:(\S+)"),
        ("deploy/compose/compose.yaml", r"image: kafka-wiretap:(\S+)"),
        ("deploy/kubernetes/components/proxy/kustomization.yaml", r'newTag: "(.+)"'),
    ],
)
def test_what_names_the_version_names_this_one(file: str, pattern: str) -> None:
    found = re.findall(pattern, (PROJECT / file).read_text())
    assert found[0] == VERSION
