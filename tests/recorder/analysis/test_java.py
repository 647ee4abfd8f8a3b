"""Tests of the check for what Spark needs on a machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from recorder.analysis.java import missing


def fake_java(folder: Path, says: str) -> Path:
    """A JAVA_HOME whose java prints this version."""
    program = folder / "bin" / "java"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\necho '{says}' >&2\n")
    program.chmod(0o755)
    return folder


@pytest.mark.parametrize(
    "says", ['openjdk version "17.0.15" 2025-04-15', 'java version "21" 2023', 'openjdk version "25-ea"', "who knows"]
)
def test_a_java_that_is_new_enough_or_does_not_say_will_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, says: str
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path, says)))
    assert missing() is None


@pytest.mark.parametrize(("says", "version"), [('java version "1.8.0_402"', 8), ('openjdk version "11.0.2"', 11)])
def test_an_old_java_is_named_with_its_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, says: str, version: int
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path, says)))
    assert missing() == f"{tmp_path}/bin/java is Java {version}: Spark needs 17 or newer (set JAVA_HOME)"


def test_a_java_home_without_java_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert str(missing()).startswith(f"no Java found: JAVA_HOME is {tmp_path}, where there is no bin/java")


def test_no_java_on_the_path_is_no_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "no Java found" in str(missing())
