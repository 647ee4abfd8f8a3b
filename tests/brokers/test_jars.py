"""Tests of downloading Kafka's jars, and of the messages when that fails."""

import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.brokers import jars


@pytest.fixture(autouse=True)
def _forgotten(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """Empties the caches in memory and on disk."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("KAFKA_HOME", raising=False)
    for remembered in (jars.kafka_home, jars.clients_jar):
        remembered.cache_clear()
    yield
    for remembered in (jars.kafka_home, jars.clients_jar):
        remembered.cache_clear()


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


def test_an_error_without_maven_names_the_way_out(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(RuntimeError, match=r"Maven \(mvn\) is not installed; `make setup` does that"):
        jars.kafka_home()


def test_an_error_quotes_maven(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    stand_in_for_maven(monkeypatch, tmp_path / "bin", "echo no way; exit 1")
    with pytest.raises(RuntimeError, match="Maven says:\nno way"):
        jars.kafka_home()


def test_a_wrong_jar_leaves_no_folder_behind(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    unpack = 'for last; do :; done; mkdir -p "${last#*=}"; echo bad > "${last#*=}/kafka-clients-4.3.1.jar"'
    stand_in_for_maven(monkeypatch, tmp_path / "bin", unpack)
    with pytest.raises(RuntimeError, match=r"not as kafka-4\.3\.1\.sha256 has them: .*'kafka-clients-4\.3\.1\.jar'"):
        jars.kafka_home()
    assert not list((tmp_path / "cache" / "kafka-wiretap").glob("*kafka-*"))


NO_JARS = 'for last; do :; done; mkdir -p "${last#*=}"'


def test_other_releases_are_kept_beside_it_whatever_kafka_home_says(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("KAFKA_HOME", str(tmp_path))
    pom = tmp_path / "pom"
    stand_in_for_maven(monkeypatch, tmp_path / "bin", f'cat "$5" > {pom}; {NO_JARS}')
    monkeypatch.setattr(jars, "_faults", lambda *_: "")
    home = jars.kafka_home("0.10.2.2")
    assert home == tmp_path / "cache" / "kafka-wiretap" / "kafka-0.10.2.2"
    asked = pom.read_text()
    assert "<artifactId>kafka_2.10</artifactId><version>0.10.2.2</version>" in asked
    assert "<exclusion><groupId>javax.jms</groupId><artifactId>jms</artifactId></exclusion>" in asked


def test_a_release_with_wrong_jars_leaves_no_folder_behind(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    stand_in_for_maven(monkeypatch, tmp_path / "bin", NO_JARS)
    for release in jars.RELEASES:
        with pytest.raises(RuntimeError, match=rf"Kafka {release} can't be had.* not as kafka-{release}.sha256 has"):
            jars.kafka_home(release)
    assert not list((tmp_path / "cache" / "kafka-wiretap").glob("*kafka-*"))


UNPACK_CLIENTS = 'for last; do :; done; mkdir -p "${last#*=}"; echo good > "${last#*=}/kafka-clients-1.2.3.jar"'


def only_that_sum(monkeypatch: pytest.MonkeyPatch, folder: Path, jar: str, content: bytes) -> None:
    (folder / "sums").write_text(f"{hashlib.sha256(content).hexdigest()}  {jar}\n")
    monkeypatch.setattr(jars, "CLIENTS_SUMS", folder / "sums")


def test_a_clients_jar_with_its_sum_is_kept_outside_the_checkout(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    stand_in_for_maven(monkeypatch, tmp_path / "bin", UNPACK_CLIENTS)
    only_that_sum(monkeypatch, tmp_path, "kafka-clients-1.2.3.jar", b"good\n")
    jar = jars.clients_jar("1.2.3")
    assert jar == tmp_path / "cache" / "kafka-wiretap" / "kafka-clients" / "kafka-clients-1.2.3.jar"
    assert jar.read_bytes() == b"good\n"
    assert [path.name for path in jar.parent.iterdir()] == [jar.name]


def test_a_clients_jar_with_another_sum_or_none_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    stand_in_for_maven(monkeypatch, tmp_path / "bin", UNPACK_CLIENTS)
    for name, content in [("kafka-clients-1.2.3.jar", b"other"), ("kafka-clients-1.2.4.jar", b"good\n")]:
        only_that_sum(monkeypatch, tmp_path, name, content)
        with pytest.raises(RuntimeError, match=r"kafka-clients-1\.2\.3\.jar is not as sums has it"):
            jars.clients_jar("1.2.3")
    assert not list((tmp_path / "cache" / "kafka-wiretap").glob("**/*.jar"))


def test_a_clients_jar_that_maven_lacks_says_what_maven_says(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    stand_in_for_maven(monkeypatch, tmp_path / "bin", "echo no way; exit 1")
    with pytest.raises(RuntimeError, match=r"kafka-clients 1\.2\.3 can't be had: Maven says:\nno way"):
        jars.clients_jar("1.2.3")
