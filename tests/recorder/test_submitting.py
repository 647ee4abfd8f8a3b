"""Tests of `kafka-wiretap spark-package`: a whole file for spark-submit or none; an unreachable master."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest

from recorder import submitting
from recorder.analysis import job
from recorder.analyze import analyze
from tests.brokers.ports import Reserved
from tests.recorder.running import run


def test_a_package_is_a_zip_and_a_program_with_the_line_that_runs_them(tmp_path: Path) -> None:
    done = run("spark-package", tmp_path / "new" / "package")
    assert done.exit_code == 0, done.output
    folder = tmp_path / "new" / "package"
    assert sorted(file.name for file in folder.iterdir()) == ["kafka_wiretap.zip", "kafka_wiretap_main.py"]
    assert {"recorder/submitting.py", "proxy/wire/messages/01_fetch.kafka"} <= {
        *ZipFile(folder / "kafka_wiretap.zip").namelist()
    }
    assert done.stdout == (
        f"spark-submit --master spark://HOST:7077 --py-files {folder}/kafka_wiretap.zip "
        f"{folder}/kafka_wiretap_main.py analyze FOLDER\n"
    )


def test_a_package_written_again_replaces_the_old_one(tmp_path: Path) -> None:
    (tmp_path / "kafka_wiretap.zip").write_text("old")
    assert run("spark-package", tmp_path).exit_code == 0
    assert ZipFile(tmp_path / "kafka_wiretap.zip").testzip() is None


def test_an_unwritable_zip_is_one_line_and_leaves_no_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    done = run("spark-package", tmp_path / "file")
    assert (done.exit_code, done.stderr.splitlines()[-1]) == (
        2,
        f"Error: {tmp_path}/file can't be written: File exists",
    )
    assert [file.name for file in tmp_path.iterdir()] == ["file"]


KILLED = """
import os, signal, sys
from pathlib import Path
from proxy.cli import main
from recorder import submitting

def kill(target: Path) -> None:
    target.write_text("half")
    os.kill(os.getpid(), getattr(signal, sys.argv[1]))

submitting._FILES[submitting.ZIP] = kill
main(["spark-package", sys.argv[2]])
"""


@pytest.mark.real
@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_an_interrupted_package_leaves_no_file_and_ends_by_the_signal(tmp_path: Path, name: str) -> None:
    command = [sys.executable, "-c", KILLED, name, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    said = "" if name == "SIGINT" else f"ended by {name}\n"
    assert (done.returncode, done.stdout, done.stderr) == (-getattr(signal, name), "", said)
    assert [*tmp_path.iterdir()] == []


def test_a_zip_that_can_not_be_finished_leaves_the_one_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(target: Path) -> None:
        target.write_text("half")
        raise OSError(28, "No space left on device")

    (tmp_path / "kafka_wiretap.zip").write_text("old")
    monkeypatch.setitem(submitting._FILES, "kafka_wiretap.zip", full)
    done = run("spark-package", tmp_path)
    assert done.exit_code == 2
    assert "No space left on device" in done.stderr
    assert [(file.name, file.read_text()) for file in tmp_path.iterdir()] == [("kafka_wiretap.zip", "old")]


def test_under_spark_submit_the_master_is_the_one_that_was_submitted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Any] = []
    monkeypatch.setattr(job, "submitted", lambda: {"spark.master": "spark://127.0.0.1:7077"})
    monkeypatch.setattr("recorder.spark_options.check_spark", lambda: None)
    monkeypatch.setattr(submitting, "check_spark", lambda: None)

    def noted(folder: object, where: Any) -> None:
        seen.append(where.master)
        raise SystemExit(0)

    monkeypatch.setattr("recorder.analyze.place_of", noted)
    monkeypatch.setattr("sys.argv", ["kafka_wiretap_main.py", "analyze", str(tmp_path)])
    with pytest.raises(SystemExit):
        submitting.main()
    assert seen == ["spark://127.0.0.1:7077"]


@pytest.mark.parametrize(
    "command",
    [("analyze",), ("report",), ("sql", "select 1"), ("compare",)],
    ids=["analyze", "report", "sql", "compare"],
)
def test_an_unreachable_master_is_reported_before_anything_is_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    monkeypatch.setattr("recorder.analysis.java.missing", lambda: None)
    # bound, and not listened on
    gone = Reserved("127.0.0.1")
    name, *rest = command
    folders = [tmp_path / "none"] * (2 if name == "compare" else 1)
    done = run(name, *folders, *rest, "--master", f"spark://{gone}")
    gone.release()
    assert done.exit_code == 2
    assert done.stderr.splitlines()[-1] == (
        f"Error: no Spark master answers at {gone}: Connection refused; right would be the address that its "
        "web page shows, or local[*]"
    )
    assert [*tmp_path.iterdir()] == []


def test_each_command_of_spark_says_how_to_reach_a_cluster() -> None:
    told = {option for param in analyze.params for option in param.opts}
    assert {"--master", "--conf"} <= told
    assert re.search("spark://HOST:PORT", run("analyze", "--help").output)
