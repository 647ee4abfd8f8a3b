"""Tests of the whole demo: after Ctrl-C, even at the worst moments, nothing keeps running."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import StringIO
from pathlib import Path

import psutil
import pytest
from rich.console import Console

from recorder.demo import run as module
from recorder.demo.children import ChildFailed, children
from recorder.demo.steady import CLIENTS
from recorder.demo.workload import STEPS_ONLY
from recorder.terminal import typed
from tests.brokers.children import KEEPS_NOTHING_FREE
from tests.recorder.running import run

MARK = "WIRETAP_TEST_MARK"
README = Path(__file__).parents[3] / "README.md"
PROGRAM = "import sys; from proxy.cli import main; sys.argv[0] = 'kafka-wiretap'; main()"


@contextmanager
def demo(folder: Path, *options: str, **environment: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Starts a demo as from a terminal; its descendants are known by a mark in their environment."""
    mark = str(uuid.uuid4())
    command = [sys.executable, "-u", "-c", PROGRAM, "demo", "--folder", str(folder), *options]
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, **KEEPS_NOTHING_FREE, **environment, MARK: mark},
        start_new_session=True,
    ) as process:
        try:
            yield process, mark
        finally:
            process.kill()


def marked(mark: str) -> list[psutil.Process]:
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if process.environ().get(MARK) == mark and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
    return found


def read_until(process: subprocess.Popen[str], words: str) -> str:
    """Returns the output up to the line with these words."""
    assert process.stdout is not None
    said = ""
    for line in process.stdout:
        said += line
        if words in line:
            return said
    raise AssertionError(f"{words!r} never came:\n{said}")


@pytest.mark.real
def test_the_demo_ends_with_an_answer_and_a_capture(tmp_path: Path) -> None:
    with demo(tmp_path / "capture") as (process, mark):
        output, _ = process.communicate()
        assert process.returncode == 0, output
        assert not marked(mark)
    for words in ("Requests and latency by API", "Produce", "OFFSET_OUT_OF_RANGE", "What to try next", "JoinGroup"):
        assert words in output
    assert re.search(r"^payments +Produce +shop ", output, re.MULTILINE), (
        "who writes a topic stands before the analysis"
    )
    assert "--slowest 3" in output
    assert "a second cluster, fresh" in output
    assert "verdict   as recorded" in output
    assert list((tmp_path / "capture" / "frames").glob("*/*/*.parquet"))
    assert sorted(who for one in findings(output) if (who := planted(one))) == ["audit", "inventory", "thermostat"]
    (of_mock,) = [one for one in findings(output) if not planted(one) and not is_of_the_machine(one)]
    assert "answered out of turn (response to a request that awaits none" in of_mock
    assert "audit at 127.0.0.1" in (tmp_path / "capture-report.html").read_text()
    ids = re.findall(r"kafka-wiretap inspect show capture (\S+)", README.read_text())
    shown = [run("inspect", "show", tmp_path / "capture", each) for each in ids]
    assert [each.exit_code for each in shown] == [0, 0], "the README's ids hold in the demo's capture"
    assert not any("behind its end" in each.output for each in shown), "the mock's refusals have bytes of no format"


@pytest.mark.long
def test_a_demo_of_clients_that_do_nothing_wrong_finds_nothing(tmp_path: Path) -> None:
    with demo(tmp_path / "capture", "--healthy") as (process, _):
        output, _ = process.communicate()
    assert process.returncode == 0, output
    assert [one for one in findings(output) if not is_of_the_machine(one)] == []
    assert "rules were judged" in output
    assert "could not be judged" not in output


def findings(output: str) -> list[str]:
    """Returns the sentences of the report's findings."""
    return re.findall(r"^  (?:critical|warning|notice): (.*)", output, re.MULTILINE)


def planted(finding: str) -> str | None:
    """Returns the misbehaving client that the sentence is about."""
    return next((client.name for client in CLIENTS if client.finding and f"{client.name} at " in finding), None)


def is_of_the_machine(finding: str) -> bool:
    """True for a finding about slow responses: other work on the machine may cause them."""
    return "(p99)" in finding


def test_without_an_engine_the_demo_analyzes_nothing_and_says_what_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paper = StringIO()
    recorded: list[list[str]] = []
    ran: list[str] = []

    def runs(_screen: Console, _started: object, command: str, *_: str) -> int:
        ran.append(command)
        return 0

    monkeypatch.setattr(module, "_lack", lambda: "no Java found")
    monkeypatch.setattr(module, "_record", lambda *arguments: recorded.append(arguments[-1]))
    monkeypatch.setattr(module, "_run", runs)
    monkeypatch.setattr(module, "_replay", lambda *_: 0)
    with children(tmp_path) as started:
        assert module._steps(Console(width=200, file=paper), started, tmp_path / "capture", []) == 1
    # what only a report is about takes nobody's time
    assert recorded == [[STEPS_ONLY]]
    assert ran == ["inspect"]
    assert "The analysis and the report are missing: no Java found" in paper.getvalue()
    assert "What to try next" in paper.getvalue()


@pytest.mark.real
@pytest.mark.long
def test_without_an_engine_the_demo_records_and_summarizes(tmp_path: Path) -> None:
    with demo(tmp_path / "capture", JAVA_HOME=str(tmp_path), KAFKA_WIRETAP_ENGINE="spark") as (process, mark):
        output, _ = process.communicate()
        assert process.returncode == 1, output
        assert not marked(mark)
    assert "Frames by API" in output
    assert "What to try next" in output
    assert "The analysis and the report are missing: no Java found" in output
    assert "other clients" not in output, "what only a report is about takes nobody's time"


@pytest.mark.real
@pytest.mark.parametrize(
    "moment",
    [
        pytest.param("a cluster of three brokers", marks=pytest.mark.long),
        pytest.param("the proxy before it", marks=pytest.mark.long),
        "produce (confluent-kafka)",
        pytest.param("kafka-wiretap analyze", marks=pytest.mark.long),
    ],
)
def test_ctrl_c_leaves_nothing_running(tmp_path: Path, moment: str) -> None:
    with demo(tmp_path / "capture") as (process, mark):
        read_until(process, moment)
        assert len(marked(mark)) > 1 or "analyze" in moment
        process.send_signal(signal.SIGINT)
        rest, _ = process.communicate()
        assert process.returncode == 130, rest
        assert "interrupted: everything that was started has ended" in rest
        assert not marked(mark)


@pytest.mark.long
@pytest.mark.real
def test_ctrl_c_while_spark_runs_ends_its_jvm_and_clears_up(tmp_path: Path) -> None:
    (tmp_path / "scratch").mkdir()
    on_spark = {"TMPDIR": str(tmp_path / "scratch"), "KAFKA_WIRETAP_ENGINE": "spark"}
    with demo(tmp_path / "capture", **on_spark) as (process, mark):
        read_until(process, "kafka-wiretap analyze")
        while not any(found.name() == "java" for found in marked(mark)):
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        process.communicate()
        assert process.returncode == 130
        assert not marked(mark)
    assert list((tmp_path / "scratch").iterdir()) == []


def test_the_suggested_commands_can_be_copied_from_a_narrow_terminal(tmp_path: Path) -> None:
    paper = StringIO()
    folder = tmp_path / ("long " * 30)
    module._next_steps(Console(width=80, file=paper), folder)
    commands = [line for line in paper.getvalue().splitlines() if line.startswith(typed())]
    assert len(commands) == 6
    assert all(f"'{folder}'" in command for command in commands[:5])
    assert "browser" not in paper.getvalue()


def test_what_to_try_next_begins_with_the_report_and_names_the_program_for_its_commands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = tmp_path / "capture-report.html"
    page.touch()
    paper = StringIO()
    monkeypatch.setattr(module, "typed", lambda: "bin/kafka-wiretap")
    module._next_steps(Console(width=80, file=paper), tmp_path / "capture")
    _, _, _, first, second, *_ = paper.getvalue().splitlines()
    assert first == f"Open {page} in a browser: the findings, with advice and evidence."
    assert second == "Where the page says kafka-wiretap, type bin/kafka-wiretap."


def test_a_child_without_output_is_not_quoted(tmp_path: Path) -> None:
    paper = StringIO()
    log = tmp_path / "log"
    log.touch()
    module._explain(Console(width=200, file=paper), ChildFailed("proxy", "ended early", log))
    assert paper.getvalue() == "the proxy ended early, and said nothing\n"
    log.write_text("why\n")
    module._explain(Console(width=200, file=paper), ChildFailed("proxy", "ended early", log))
    assert paper.getvalue().endswith("the proxy ended early; the end of what it said:\n  why\n")


def test_an_existing_capture_is_mentioned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(module, "_steps", lambda *_: 0)
    assert module.run(tmp_path) == 0
    assert capsys.readouterr().out == ""
    (tmp_path / "frames").mkdir()
    assert module.run(tmp_path) == 0
    assert f"note: {tmp_path} holds a capture already" in capsys.readouterr().out
