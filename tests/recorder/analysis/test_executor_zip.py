"""Tests of the zip for Spark's executors: its code works without the project's files."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest

from proxy.wire import catalog, records
from recorder.analysis.executor_zip import write_whole, write_zip, zip_for_executors
from tests.recorder.analysis.conftest import write_frames

PROGRAM = """
import json, sys
sys.path.insert(0, sys.argv[1])
from proxy.wire import error_reader
from recorder.analysis import columns
from recorder.capture import outcome
from recorder.facts import response_errors
for module in (error_reader, columns, outcome, response_errors):
    assert module.__file__.startswith(sys.argv[1]), module.__file__
facts = {"dialect": "kafka", "api_key": 1, "api_version": 12, "masked_from": None, "is_cut": False}
print(json.dumps(response_errors.response_errors(bytes.fromhex(sys.argv[2]), **facts)))
"""


@pytest.mark.real
def test_a_process_that_has_only_the_zip_reads_errors_and_waits(tmp_path: Path) -> None:
    zipped = write_zip(tmp_path / "code.zip")
    batch = records.write_batch([records.Record(5, value=b"v")])
    partitions = [{"high_watermark": 6, "records": batch, "aborted_transactions": None}, {"error_code": 6}]
    frame = catalog.encode_response(1, 12, 1, {"responses": [{"topic": "t", "partitions": partitions}]})
    # with -I, Python searches neither this folder nor PYTHONPATH
    command = [sys.executable, "-I", "-c", PROGRAM, str(zipped), frame.hex()]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.stderr == ""
    assert json.loads(done.stdout) == [[6], None, "error"]


MAKER = """
import sys
sys.path.insert(0, sys.argv[1])
from recorder.capture import fact_maker
ours = [module for name, module in sys.modules.items() if name.split(".")[0] in ("proxy", "recorder")]
assert all(module.__file__.startswith(sys.argv[1]) for module in ours), ours
print(fact_maker.make_missing.__name__)
"""


@pytest.mark.real
def test_a_process_that_has_only_the_zip_can_make_facts(tmp_path: Path) -> None:
    zipped = write_zip(tmp_path / "code.zip")
    command = [sys.executable, "-I", "-c", MAKER, str(zipped)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("make_missing\n", "")


DECODERS = """
import sys
sys.path.insert(0, sys.argv[1])
from recorder.analysis.decode import cloudevent_rows, encodings, messages, record_rows
from recorder.facts import answers, batches, metadata, names, software, topic_partitions
from recorder.analysis import scan
from recorder.capture import reader
ours = [module for name, module in sys.modules.items() if name.split(".")[0] in ("proxy", "recorder")]
strange = [module.__file__ for module in ours if not module.__file__.startswith(sys.argv[1])]
assert not strange, strange
assert not [name for name in sys.modules if name.split(".")[0] in ("pyspark", "msgspec", "cloudevents", "click")]
print(len(answers.answers().selectors) > 1)
"""


@pytest.mark.real
def test_a_process_that_has_only_the_zip_decodes_and_reads_captures(tmp_path: Path) -> None:
    zipped = write_zip(tmp_path / "code.zip")
    command = [sys.executable, "-I", "-c", DECODERS, str(zipped)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("True\n", "")


SOURCE = """
import sys
sys.path.insert(0, sys.argv[1])
from recorder.analysis.data_source import read_options
read_options({"path": sys.argv[2], "table": "messages", "since": "2026-11-21T13:48", "until": "-5m", "apis": "Fetch"})
ours = [module for name, module in sys.modules.items() if name.split(".")[0] in ("proxy", "recorder")]
print([module.__file__ for module in ours if not module.__file__.startswith(sys.argv[1])], "click" in sys.modules)
"""


@pytest.mark.real
def test_a_process_that_has_only_the_zip_understands_the_options_of_the_format(
    tmp_path: Path, request_row: Callable[..., Any]
) -> None:
    """Spark's planning process is in this state if the session came by Spark Connect."""
    write_frames(tmp_path / "capture", [request_row(1)], 1)
    command = [sys.executable, "-I", "-c", SOURCE, str(write_zip(tmp_path / "code.zip")), str(tmp_path / "capture")]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("[] False\n", "")


def test_the_zip_holds_the_messages_and_no_compiled_files(tmp_path: Path) -> None:
    names = ZipFile(write_zip(tmp_path / "code.zip")).namelist()
    assert "proxy/wire/messages/01_fetch.kafka" in names
    assert not [name for name in names if name.endswith(".pyc")]
    assert not [name for name in names if name.startswith("proxy/net")]


WHOLE = """
import sys
sys.path.insert(0, sys.argv[1])
from importlib.metadata import version
from recorder import submitting
from recorder.analysis import executor_zip
from recorder.report.page import page, script
assert submitting.__file__.startswith(sys.argv[1]), submitting.__file__
assert len(script("sort.js")) > 100
print(version("kafka-wiretap"), executor_zip.zip_for_executors(None) == executor_zip.Path(sys.argv[1]))
"""


@pytest.mark.real
def test_a_process_that_has_only_the_whole_zip_runs_the_commands_and_ships_that_zip(tmp_path: Path) -> None:
    zipped = write_whole(tmp_path / "code.zip")
    command = [sys.executable, "-I", "-c", WHOLE, str(zipped)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == (f"{version('kafka-wiretap')} True\n", "")


def test_a_process_that_has_files_ships_what_executors_need(tmp_path: Path) -> None:
    assert zip_for_executors(tmp_path / "code.zip") == tmp_path / "code.zip"
    assert ZipFile(tmp_path / "code.zip").namelist() == ZipFile(write_zip(tmp_path / "other.zip")).namelist()
