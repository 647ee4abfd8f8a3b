"""Tests of `kafka-wiretap redact`: what OUT holds, on either engine, and what is refused in a line."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from proxy import cli
from recorder.capture import frames as c
from recorder.capture.fact_files import State, state_of, stems
from recorder.capture.record_rules import RecordRule
from recorder.capture.redacting import Redaction, redact_file
from recorder.capture.selection import SelectionSettings
from tests.brokers.waiting import wait_for
from tests.recorder.capture.looks import everything, frame_rows, rows
from tests.recorder.capture.recorded import two_sessions
from tests.recorder.capture.test_record_hashing import KEY, SECRET, captured
from tests.recorder.capture.test_redacting import a_talk
from tests.sweeps import mostly_long


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("recorded")
    captured(folder / "in", key_in(folder), a_talk())
    return folder


@pytest.fixture
def folder(recorded: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(recorded, tmp_path / "all"))


def key_in(folder: Path) -> Path:
    key = folder / "hash.key"
    key.write_bytes(KEY)
    key.chmod(0o600)
    return key


def run(*arguments: object) -> Result:
    return CliRunner().invoke(cli.main, ["redact", *map(str, arguments)])


def assert_nothing_planted(out: Path) -> None:
    assert not any(SECRET in content for content in everything(out).values() if isinstance(content, bytes))
    assert not any(SECRET in (row[c.FRAME] or b"") for row in rows(out))


@pytest.mark.real
@pytest.mark.parametrize("engine", mostly_long(["embedded", "spark"], usual=1))
def test_either_engine_makes_a_capture_with_facts_of_its_own(folder: Path, engine: str) -> None:
    before = everything(folder / "in")
    asked = ("--records", "drop", "--topic", "pay*=hash", "--hash-key", folder / "hash.key", "--engine", engine)
    found = run(folder / "in", folder / "out", *asked)
    assert found.exit_code == 0, found.output
    assert everything(folder / "in") == before
    assert_nothing_planted(folder / "out")
    assert len(frame_rows(folder / "out")) == len(frame_rows(folder / "in"))
    assert {state_of(folder / "out", stem) for stem in stems(folder / "out")} == {State.CURRENT}
    again = run(folder / "in", folder / "out", *asked)
    assert (again.exit_code, "exists already" in again.stderr) == (1, True)


@pytest.mark.real
def test_chosen_topics_are_copied_and_every_answer_says_so(folder: Path) -> None:
    found = run(folder / "in", folder / "out", "--only-topics", "free", "--engine", "embedded")
    assert found.exit_code == 0, found.output
    asked = [row for row in frame_rows(folder / "out") if row[c.KIND] == c.REQUEST]
    assert {row[c.API] for row in asked} == {"Metadata", "Produce", "Fetch", None, "Heartbeat"}
    shown = CliRunner().invoke(cli.main, ["inspect", str(folder / "out"), "--json"])
    assert json.loads(shown.stdout)["missing"]["only_topics"] == ['redact.only.topics = ["free"]']


@pytest.mark.real
@pytest.mark.parametrize("asked", [("--records", "drop"), ("--only-topics", "orders-*")], ids=["drop", "only topics"])
def test_a_file_that_can_not_be_read_is_named_and_all_others_are_there(tmp_path: Path, asked: tuple[str, str]) -> None:
    two_sessions(tmp_path / "in")
    first, *others = sorted((tmp_path / "in" / "frames").rglob("*.parquet"))
    first.write_bytes(first.read_bytes()[:-9])
    found = run(tmp_path / "in", tmp_path / "out", *asked, "--engine", "embedded")
    assert (found.exit_code, f"{first} is missing" in found.stderr) == (1, True), found.stderr
    made = {path.name for path in (tmp_path / "out" / "frames").rglob("*.parquet")}
    assert made == {path.name for path in others}


@pytest.mark.parametrize(("topics", "is_copied"), [(None, True), (("orders-*",), False)])
def test_of_segments_of_which_a_file_can_not_be_read_no_file_is_copied_by_its_topics(
    tmp_path: Path, topics: tuple[str, ...] | None, is_copied: bool
) -> None:
    two_sessions(tmp_path / "in")
    (tmp_path / "out").mkdir()
    path = next((tmp_path / "in" / "frames").rglob("*.parquet"))
    # nothing is known of what its segments hold
    done = redact_file(Redaction(str(tmp_path / "out"), SelectionSettings(topics=topics)), str(path))
    assert ("nobody can tell" in (done.reason or "")) is not is_copied
    assert len([*(tmp_path / "out").rglob("*.parquet")]) == is_copied


@pytest.mark.real
def test_in_a_pipe_it_says_how_far_it_is(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []

    def asked(place: Any, question: Any) -> list[Any]:
        (folder / "out" / "half.parquet").touch()
        before = len(said)
        wait_for(lambda: len(said) > before + 1, "a line")
        return []

    monkeypatch.setattr("recorder.terminal.EVERY_SECONDS", 0.02)
    monkeypatch.setattr("recorder.terminal.echo", lambda line, **_: said.append(line))
    monkeypatch.setattr("recorder.analysis.running.ask", asked)
    monkeypatch.setattr("recorder.capture.fact_maker.make_missing", lambda *_: [])
    run(folder / "in", folder / "out", "--records", "drop", "--engine", "spark")
    files = len([*(folder / "in" / "frames").rglob("*.parquet"), *(folder / "in" / "events").rglob("*.parquet")])
    assert re.fullmatch(rf"\d+ s: redacting \.\.\. \(1 of {files} files?\)", said[-1])


@pytest.mark.real
def test_a_killed_run_leaves_whole_files_or_none(folder: Path) -> None:
    script = f"""
import os, signal
from pathlib import Path
from recorder.capture import redacting
from recorder.capture.record_rules import RecordRule
from recorder.capture.selection import SelectionSettings
out = Path({str(folder / "out")!r})
out.mkdir()
paths = redacting.captured_files(Path({str(folder / "in")!r}))
redaction = redacting.Redaction(str(out), SelectionSettings(records=RecordRule.DROP))
redacting.redact_file(redaction, paths[0])
redacting.publish = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
redacting.redact_file(redaction, paths[-1])
"""
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == -9
    whole = [path for path in (folder / "out").rglob("*.parquet") if not path.name.startswith(".")]
    assert len(whole) == 1
    assert len(frame_rows(folder / "out")) == len(frame_rows(folder / "in"))
    assert_nothing_planted(folder / "out")


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ([], "nothing says what to leave out; right would be --records drop"),
        (["--records", "hide"], "'hide' is none of keep, hash, drop"),
        (["--topic", "pay"], "'pay' names no rule; right would be --topic 'payments-*=drop'"),
        (["--topic", "a b=drop"], "can match no topic"),
        (["--topic", "a=drop", "--topic", "a=hash"], "names a pattern twice"),
        (["--seed", "3"], "nothing says what to leave out"),
        (["--only-topics", "a b"], "can match no topic"),
        (["--share", "0"], "is no share above 0, and at most 1"),
        (["--shares", "Fetch=2"], "is no share above 0, and at most 1"),
        (["--records", "hash"], "the rule hash needs a key; right would be --hash-key FILE"),
        (["--records", "hash", "--hash-key", "/nowhere"], "--hash-key /nowhere can't be read"),
    ],
)
def test_what_can_not_be_done_is_one_line(folder: Path, arguments: list[str], reason: str) -> None:
    found = run(folder / "in", folder / "out", *arguments)
    assert (found.exit_code, reason in found.stderr) == (2, True), found.stderr
    assert not (folder / "out").exists()


def test_a_key_that_others_can_read_is_refused(folder: Path) -> None:
    (folder / "hash.key").chmod(0o640)
    found = run(folder / "in", folder / "out", "--records", "hash", "--hash-key", folder / "hash.key")
    assert (found.exit_code, "can be read by others than its owner" in found.stderr) == (2, True)


def test_the_fingerprint_is_no_part_of_any_hash(folder: Path) -> None:
    captured(folder / "hashed", folder / "hash.key", a_talk(), records=RecordRule.HASH)
    details = [json.loads(row[c.DETAIL]) for row in rows(folder / "hashed", [c.DETAIL], kind=c.EVENTS_FOLDER)]
    (fingerprint,) = {detail[c.HASH_KEY] for detail in details if c.HASH_KEY in detail}
    assert not any(bytes.fromhex(fingerprint) in (row[c.FRAME] or b"") for row in rows(folder / "hashed"))
