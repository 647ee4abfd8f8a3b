"""Tests of wrong exports: one line and exit code 2, before Spark starts and before anything is written."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError

from recorder import extras, spark_options
from recorder.analysis.summary.bounds import Table
from recorder.analysis.summary.sections.findings import Finding, Findings, Severity
from recorder.export import commands, publisher
from recorder.export.message import Message
from recorder.export.publisher import Publisher
from tests.recorder.running import run, unread_capture

FINDING = Finding("slow", Severity.CRITICAL, "Fetch on node 2", "it was slow", "look", 10**18)
WHERE = ("--cloudevents", "findings", "--bootstrap", "127.0.0.1:9")


@pytest.fixture
def capture(tmp_path: Path) -> Path:
    return unread_capture(tmp_path)


@pytest.fixture
def published(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Replaces Spark and the cluster; lists what was published, and to which topic."""
    found: list[Any] = []

    def publish(self: Publisher, messages: list[Message]) -> dict[int, int]:
        found.append((self, messages))
        return {0: len(messages)} if messages else {}

    monkeypatch.setattr(Publisher, "check", lambda self: None)
    monkeypatch.setattr(Publisher, "publish", publish)
    monkeypatch.setattr(commands, "_findings", lambda *_: Findings(found=Table((FINDING,))))
    monkeypatch.setattr(spark_options, "check_spark", lambda: None)
    return found


def refused(*arguments: object) -> str:
    """Returns the one line that refuses an export."""
    found = run("export", *arguments)
    assert found.exit_code == 2
    (line,) = found.stderr.splitlines()
    return line


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--cloudevents", "a topic"), "'a topic' is no topic's name: right would be up to 249 of a-z, "),
        (("--cloudevents", ".."), "'..' is no topic's name: right would be "),
        (
            ("--key", "k", "--key-mapper", "partitionkey"),
            "--key and --key-mapper both say what the key is: right would be ",
        ),
        (("--producer", "linger"), "--producer: a setting has a name and a value; right would be linger.ms=5"),
        (
            ("--producer", "nonsense=1"),
            'No such configuration property: "nonsense": right would be a setting of librdkafka\'s',
        ),
        (
            ("--producer", "oauth_cb=1"),
            "expected oauth_cb property as a callable function: right would be a setting of ",
        ),
        (
            ("--producer", "default.topic.config=1"),
            "'str' object has no attribute 'keys': right would be a setting of ",
        ),
        (("--source", "my source"), "--source: 'my source' is no URI; right would be /wiretap/production"),
        (("--source", ""), "--source: '' is no URI; right would be "),
        (("--producer-config", "/nowhere"), "/nowhere can't be read (No such file or directory)"),
        (("--producer-config", "/dev/zero"), "/dev/zero is longer than 16 MiB"),
    ],
    ids=[
        "name",
        "dots",
        "two keys",
        "setting",
        "unknown setting",
        "function",
        "no text",
        "source",
        "no source",
        "file",
        "device",
    ],
)
def test_a_wrong_option_is_one_line(capture: Path, options: tuple[str, ...], says: str) -> None:
    assert refused(capture, *WHERE, *options).startswith(f"Error: {says}")


def test_a_folder_that_is_no_capture_is_reported_before_the_cluster_is_contacted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(publisher, "PATIENCE", 0.5)
    monkeypatch.setattr(spark_options, "check_spark", lambda: None)
    assert "/nowhere does not exist: record one with" in refused(tmp_path / "nowhere", *WHERE)


@pytest.mark.parametrize("mode", ["binary", "structured"])
def test_a_cluster_that_does_not_answer_is_one_line(capture: Path, monkeypatch: pytest.MonkeyPatch, mode: str) -> None:
    monkeypatch.setattr(publisher, "PATIENCE", 0.5)
    monkeypatch.setattr(spark_options, "check_spark", lambda: None)
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{bound.getsockname()[1]}"
        line = refused(capture, *WHERE, "--bootstrap", address, "--mode", mode)
    assert line.startswith(f"Error: no broker answers at {address} (")
    assert line.endswith("); right would be --bootstrap HOST:PORT of one")


def test_a_missing_package_is_one_line(capture: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extras, "find_spec", lambda name: None if name == "cloudevents" else object())
    line = refused(capture, *WHERE)
    assert line.startswith("Error: not installed: cloudevents; ")
    assert line.endswith("-m pip install '.[export]'")


def test_a_setting_that_is_a_secret_is_not_repeated(capture: Path, tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text("# mine\n\nsasl.password=hidden\nhunter2\n")
    line = refused(capture, *WHERE, "--producer-config", file)
    assert line == f"Error: {file}: a setting has a name and a value; right would be linger.ms=5"


def test_settings_are_the_files_and_the_options_win(capture: Path, published: list[Any], tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text("linger.ms = 5\nsasl.password=a=b\n")
    done = run("export", capture, *WHERE, "--producer-config", file, "--producer", "linger.ms=7")
    assert done.exit_code == 0, done.output
    ((where, messages),) = published
    assert where.settings == {"linger.ms": "7", "sasl.password": "a=b"}
    assert (where.topic, where.bootstrap, where.with_headers) == ("findings", "127.0.0.1:9", True)
    assert [message.key for message in messages] == [None]
    assert done.stdout == "published 1 finding to findings: partition 0 (1)\n"


@pytest.mark.parametrize(
    ("options", "key"),
    [((), None), (("--key", "mine"), b"mine"), (("--key-mapper", "partitionkey"), b"Fetch on node 2")],
    ids=["none", "given", "mapper"],
)
def test_the_key_is_the_requested_one(
    capture: Path, published: list[Any], options: tuple[str, ...], key: bytes
) -> None:
    run("export", capture, *WHERE, "--mode", "structured", *options)
    ((where, messages),) = published
    assert [message.key for message in messages] == [key]
    assert not where.with_headers


def test_a_terminal_shows_what_is_done(capture: Path, published: list[Any], on_a_terminal: None) -> None:
    done = run("export", capture, *WHERE, "--bootstrap", "[::1]:9")
    assert done.exit_code == 0
    assert "looking for findings at [::1]:9 ..." in done.stderr
    assert "publishing 1 finding to findings ..." in done.stderr


def test_a_partial_export_is_reported_and_exits_with_1(
    capture: Path, published: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def publish(self: Publisher, messages: list[Message]) -> dict[int, int]:
        self._delivered[0] = 1
        raise self._ended(3, KafkaError(KafkaError.MSG_SIZE_TOO_LARGE))

    monkeypatch.setattr(Publisher, "publish", publish)
    done = run("export", capture, *WHERE)
    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr == (
        "Error: 1 of 3 events were published to findings, then: Broker: Message size too large; "
        "exporting again is safe, since events keep their ids\n"
    )


@pytest.mark.parametrize(
    ("found", "says"),
    [(Findings(), "there are no findings"), (Findings(not_judged="no frames"), "no frames")],
    ids=["quiet", "empty"],
)
def test_a_report_without_findings_says_that_there_are_none(
    capture: Path, published: list[Any], monkeypatch: pytest.MonkeyPatch, found: Findings, says: str
) -> None:
    monkeypatch.setattr(commands, "_findings", lambda *_: found)
    done = run("export", capture, *WHERE)
    assert (done.exit_code, done.stdout) == (0, f"nothing published: {says}\n")
