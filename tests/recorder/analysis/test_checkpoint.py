"""Tests of a stream's checkpoint: a capture, output or checkpoint of another stream is refused before any write."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from recorder.analysis.checkpoint import LOCK, OWNER, StreamLocks, WrongCheckpoint, claim
from tests.brokers.children import spawn
from tests.brokers.waiting import wait_for

FACTS = {"FOLDER": "/captures/a", "--window": "1m", "--by": ["api", "node"]}
FORM = 3


def tables(folder: Path) -> dict[str, Path]:
    return {"latency_by_api": folder / "out" / "latency_by_api"}


def claimed(folder: Path, form: int = FORM, **other: object) -> None:
    claim(folder / "checkpoint", {**FACTS, **other}, tables(folder), form=form, write=True)


def test_a_new_checkpoint_is_this_streams_from_then_on(tmp_path: Path) -> None:
    claimed(tmp_path)
    written = (tmp_path / "checkpoint" / OWNER).read_bytes()
    claimed(tmp_path)
    assert [one.name for one in (tmp_path / "checkpoint").iterdir()] == [OWNER]
    assert (tmp_path / "checkpoint" / OWNER).read_bytes() == written


def test_a_checkpoint_claimed_without_write_is_not_written(tmp_path: Path) -> None:
    claim(tmp_path / "checkpoint", FACTS, tables(tmp_path), form=FORM, write=False)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("FOLDER", "/captures/b", "its FOLDER is /captures/a, not /captures/b; right would be FOLDER /captures/a, or"),
        ("--window", "5s", "its --window is 1m, not 5s"),
        ("--by", ["api"], "its --by is api,node, not api; right would be --by api,node"),
    ],
    ids=["capture", "window", "by"],
)
def test_the_checkpoint_of_another_stream_is_refused(tmp_path: Path, name: str, value: object, says: str) -> None:
    claimed(tmp_path)
    (tmp_path / "checkpoint" / "latency_by_api").mkdir()
    other: dict[str, Any] = {name: value}
    with pytest.raises(WrongCheckpoint, match=f"is the checkpoint of another stream: {says}"):
        claimed(tmp_path, **other)


OTHER_FORMS = {"older": FORM - 1, "newer": FORM + 1}


@pytest.mark.parametrize("age", OTHER_FORMS)
def test_the_checkpoint_of_another_form_is_refused_and_left_as_it_is(tmp_path: Path, age: str) -> None:
    claimed(tmp_path, OTHER_FORMS[age])
    (tmp_path / "checkpoint" / "latency_by_api").mkdir()
    written = (tmp_path / "checkpoint" / OWNER).read_bytes()
    right = "right would be another --output and --checkpoint, or that kafka-wiretap"
    with pytest.raises(WrongCheckpoint, match=f"checkpoint was written by an? {age} kafka-wiretap, .*: {right}$"):
        claimed(tmp_path)
    assert (tmp_path / "checkpoint" / OWNER).read_bytes() == written
    claimed(tmp_path, OTHER_FORMS[age])


def test_a_checkpoint_without_a_form_is_of_an_older_one(tmp_path: Path) -> None:
    claimed(tmp_path)
    (tmp_path / "checkpoint" / "latency_by_api").mkdir()
    (tmp_path / "checkpoint" / OWNER).write_text(json.dumps(FACTS))
    with pytest.raises(WrongCheckpoint, match="was written by an older kafka-wiretap"):
        claimed(tmp_path)


def test_a_stream_of_another_form_that_never_began_blocks_no_later_one(tmp_path: Path) -> None:
    claimed(tmp_path, FORM + 1)
    claimed(tmp_path)
    (tmp_path / "checkpoint" / "latency_by_api").mkdir()
    claimed(tmp_path)


def test_a_stream_that_never_began_does_not_fix_the_options(tmp_path: Path) -> None:
    other: dict[str, Any] = {"--window": "5m"}
    claimed(tmp_path, **other)
    claimed(tmp_path)
    assert json.loads((tmp_path / "checkpoint" / OWNER).read_text())["--window"] != "5m"


def test_an_output_of_another_checkpoint_is_refused(tmp_path: Path) -> None:
    tables(tmp_path)["latency_by_api"].mkdir(parents=True)
    with pytest.raises(WrongCheckpoint, match="is there already, of a stream with another checkpoint: right would be"):
        claimed(tmp_path)
    assert not (tmp_path / "checkpoint").exists()


def test_a_folder_of_other_files_is_no_checkpoint(tmp_path: Path) -> None:
    (tmp_path / "checkpoint").mkdir()
    (tmp_path / "checkpoint" / "notes.txt").touch()
    with pytest.raises(WrongCheckpoint, match="is no checkpoint of kafka-wiretap: right would be an empty folder"):
        claimed(tmp_path)


@pytest.mark.parametrize(
    "content", [b"", b"[]", b"{", b"\xff", b'{"form": "3"}'], ids=["empty", "list", "cut", "no-text", "text-as-form"]
)
def test_a_damaged_owner_is_refused(tmp_path: Path, content: bytes) -> None:
    claimed(tmp_path)
    (tmp_path / "checkpoint" / "latency_by_api").mkdir()
    (tmp_path / "checkpoint" / OWNER).write_bytes(content)
    with pytest.raises(WrongCheckpoint, match="is damaged"):
        claimed(tmp_path)


def test_a_draft_that_a_kill_left_is_no_strange_file(tmp_path: Path) -> None:
    (tmp_path / "checkpoint").mkdir()
    (tmp_path / "checkpoint" / f".{OWNER}").write_bytes(b"{")
    claimed(tmp_path)
    claimed(tmp_path)


def test_a_checkpoint_whose_output_is_gone_is_refused(tmp_path: Path) -> None:
    claimed(tmp_path)
    commits = tmp_path / "checkpoint" / "latency_by_api" / "commits"
    commits.mkdir(parents=True)
    # Spark has removed the numbers of the first batches
    (commits / "107").touch()
    with pytest.raises(WrongCheckpoint, match=r"latency_by_api is gone, and .* goes on behind it"):
        claimed(tmp_path)


@pytest.mark.parametrize(
    ("log", "content"),
    [("metadata", b""), ("metadata", b"garbage"), ("offsets/7", b""), ("offsets/7", b"garbage"), ("commits/7", b"\0")],
)
def test_a_log_of_sparks_that_is_damaged_is_named(tmp_path: Path, log: str, content: bytes) -> None:
    claimed(tmp_path)
    query = tmp_path / "checkpoint" / "latency_by_api"
    sound = {
        "metadata": b'{"id":"5b4bdbcb"}',
        "offsets/7": b"v1\n{}\n{}",
        "commits/7": b"v1\n{}",
        "offsets/.8.tmp": b"",
    }
    for name, kept in sound.items():
        (query / name).parent.mkdir(parents=True, exist_ok=True)
        (query / name).write_bytes(kept)
    (tables(tmp_path)["latency_by_api"] / "_spark_metadata").mkdir(parents=True)
    claimed(tmp_path)
    (query / log).write_bytes(content)
    with pytest.raises(WrongCheckpoint, match=f"{log} is damaged: right would be another --output and --checkpoint"):
        claimed(tmp_path)


# locks the folders of its arguments until it is killed
HOLDER = """
import sys, signal
from pathlib import Path
from recorder.analysis.checkpoint import StreamLocks
StreamLocks(map(Path, sys.argv[1:])).take(make=True)
print("held", flush=True)
signal.pause()
"""


def test_a_second_stream_is_refused_and_a_killed_one_blocks_no_later_one(tmp_path: Path) -> None:
    output, checkpoint, log = tmp_path / "out", tmp_path / "out" / "_checkpoint", tmp_path / "log"
    child = spawn([sys.executable, "-c", HOLDER, str(output), str(checkpoint)], output=log)
    try:
        wait_for(
            lambda: "held" in log.read_text(), "the locks", hopeless=lambda: log.read_text() if child.poll() else None
        )
        for mine in ([output], [checkpoint], [tmp_path / "other", checkpoint]):
            with pytest.raises(WrongCheckpoint, match=r"another stream writes to .* now: right would be "):
                StreamLocks(mine).take(make=True)
    finally:
        child.kill()
        child.wait()
    locks = StreamLocks([output, checkpoint])
    locks.take(make=False)
    locks.release()


def test_a_folder_that_is_to_come_is_neither_made_nor_locked_by_a_look(tmp_path: Path) -> None:
    StreamLocks([tmp_path / "out"]).take(make=False)
    assert list(tmp_path.iterdir()) == []


def test_a_lock_makes_no_checkpoint_of_others(tmp_path: Path) -> None:
    locks = StreamLocks([tmp_path / "checkpoint"])
    locks.take(make=True)
    claimed(tmp_path)
    locks.release()
    assert {one.name for one in (tmp_path / "checkpoint").iterdir()} == {LOCK, OWNER}


def test_a_folder_that_can_not_be_locked_is_named(tmp_path: Path) -> None:
    (tmp_path / "out" / LOCK).mkdir(parents=True)
    with pytest.raises(OSError, match=f"is a folder, not a file: '{tmp_path / 'out'}'"):
        StreamLocks([tmp_path / "out"]).take(make=False)
