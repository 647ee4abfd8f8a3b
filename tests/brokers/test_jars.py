"""Where Kafka's jars come from, and what is said when they can't."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.brokers import jars


@pytest.fixture(autouse=True)
def _forgotten(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """Nothing remembered, nothing in the cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("KAFKA_HOME", raising=False)
    jars.kafka_home.cache_clear()
    yield
    jars.kafka_home.cache_clear()


def stand_in_for_maven(monkeypatch: pytest.MonkeyPatch, folder: Path, script: str) -> None:
    folder.mkdir()
    (folder / "mvn").write_text(f"#!/bin/sh\n{script}\n")
    (folder / "mvn").chmod(0o755)
    monkeypatch.setenv("PATH", str(folder), prepend=":")


def test_kafka_home_is_taken_as_it_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "libs").mkdir()
    (tmp_path / "libs" / "kafka-clients-9.9.9.jar").touch()
    monkeypatch.setenv("KAFKA_HOME", str(tmp_path))
    assert jars.kafka_home() == tmp_path


def test_a_kafka_home_without_kafka_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("KAFKA_HOME", str(tmp_path))
    with pytest.raises(RuntimeError, match=r"KAFKA_HOME=.*unpacked Kafka"):
        jars.kafka_home()


def test_without_maven_the_way_out_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(RuntimeError, match=r"Maven \(mvn\) is not installed; `make setup` does that"):
        jars.kafka_home()


def test_what_maven_says_is_passed_on(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    stand_in_for_maven(monkeypatch, tmp_path / "bin", "echo no way; exit 1")
    with pytest.raises(RuntimeError, match="Maven says:\nno way"):
        jars.kafka_home()


def test_a_wrong_jar_leaves_no_folder_behind(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    unpack = 'for last; do :; done; mkdir -p "${last#*=}"; echo bad > "${last#*=}/kafka-clients-4.3.1.jar"'
    stand_in_for_maven(monkeypatch, tmp_path / "bin", unpack)
    with pytest.raises(RuntimeError, match=r"not as kafka-4\.3\.1\.sha256 has them: .*'kafka-clients-4\.3\.1\.jar'"):
        jars.kafka_home()
    assert not list((tmp_path / "cache" / "kafka-wiretap").glob("*kafka-*"))
