"""Tests that both engines give the same answers, and that the embedded one leaves nothing behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import psutil
import pytest
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import SparkSession

from recorder.analysis import embedded, embedded_process
from recorder.analysis.output import write
from recorder.analysis.running import EngineGone, as_click_errors
from recorder.analysis.scan import files_in
from recorder.analysis.sources import SOURCES, captured, load
from recorder.analysis.summarize import summary
from recorder.analysis.summary.sections.method import Method
from recorder.analysis.table_cache import persisted
from recorder.analysis.views import answer, is_for_spark
from tests.brokers.waiting import PATIENCE
from tests.recorder.analysis.conftest import write_frames
from tests.recorder.analysis.test_views import QUERIES, STATEMENTS

pytestmark = pytest.mark.real
Build = Callable[..., Any]


@contextmanager
def engine() -> Iterator[tuple[SparkSession, psutil.Process]]:
    """A session on the embedded engine, and the engine's process."""
    before = {child.pid for child in psutil.Process().children()}
    with embedded.session() as session:
        (child,) = (one for one in psutil.Process().children() if one.pid not in before)
        yield session, child


def folder_of(child: psutil.Process) -> Path:
    """The folder of an engine's process: its arguments name a socket there."""
    return next(Path(one).parent for one in child.cmdline() if one.endswith("/engine"))


def answers(session: SparkSession, folder: str) -> tuple[dict[str, Any], Any]:
    """All tables of a capture, with their types, and its report without what differs from run to run."""
    found = captured(session, folder, files_in(folder), is_tiny=True)
    tables = {name: load(found, name) for name in SOURCES}
    rows = {name: (table.dtypes, sorted(map(repr, table.toArrow().to_pylist()))) for name, table in tables.items()}
    return rows, replace(summary(found, folder), method=Method())


@pytest.mark.long
def test_both_engines_give_all_tables_and_the_report_alike(
    spark: SparkSession, tmp_path: Path, rows: list[dict[str, Any]]
) -> None:
    write_frames(tmp_path, rows, 100)
    of_spark = answers(spark, str(tmp_path))
    with embedded.session() as session:
        of_embedded = answers(session, str(tmp_path))
    for name in SOURCES:
        assert of_embedded[0][name] == of_spark[0][name], name
    assert of_embedded[1] == of_spark[1]
    assert {name for name, (_, found) in of_spark[0].items() if found} >= {
        "exchanges",
        "records",
        "topic_use",
        "batches",
    }


def test_the_engine_ends_with_its_session_and_leaves_no_file() -> None:
    with engine() as (session, child):
        # a question that is answered before its Python workers are through
        assert session.range(10**6).mapInArrow(lambda batches: batches, "id bigint").limit(2).count() == 2
        folder = folder_of(child)
        assert folder.stat().st_mode & 0o077 == 0
    assert not child.is_running()
    assert not folder.exists()
    assert not embedded.is_embedded()


def test_the_engine_is_reached_in_a_temporary_folder_of_any_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    odd = tmp_path.parent.parent / "a b%20#?é"
    odd.mkdir(exist_ok=True)
    monkeypatch.setattr("tempfile.tempdir", str(odd))
    with embedded.session() as session:
        assert session.range(3).count() == 3
    odd.rmdir()


def test_the_engine_and_its_files_go_with_a_killed_parent() -> None:
    program = "\n".join(
        [
            "import time, psutil",
            "from recorder.analysis import embedded",
            "with embedded.session():",
            "    print(psutil.Process().children()[0].pid, flush=True)",
            "    time.sleep(600)",
        ]
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        child = psutil.Process(int(parent.stdout.readline()))
        folder = folder_of(child)
        os.kill(parent.pid, signal.SIGKILL)
    child.wait(PATIENCE)
    assert not folder.exists()


def test_an_engine_that_was_begun_serves_the_next_session_or_ends_with_its_command() -> None:
    def children() -> set[int]:
        return {one.pid for one in psutil.Process().children()}

    before = children()
    embedded_process.begin()
    embedded_process.begin()
    (begun,) = children() - before
    with embedded.session() as session:
        assert children() - before == {begun}
        assert session.range(3).count() == 3
    embedded_process.begin()
    embedded_process.forget()
    assert children() == before


def test_the_engine_starts_below_a_folder_with_a_long_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    long = tmp_path / ("a" * 120)
    long.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(long))
    with embedded.session() as session:
        assert session.range(3).count() == 3


def test_a_table_that_is_kept_for_a_block_leaves_no_file_behind_it() -> None:
    with engine() as (session, child):
        with persisted(session.range(3)) as table:
            assert table.count() == 3
            assert [*folder_of(child).glob("table-*")]
        assert not [*folder_of(child).glob("table-*")]


@pytest.mark.parametrize("form", ["parquet", "csv", "json"])
def test_a_table_is_written_once_unless_it_is_to_be_overwritten(form: str, tmp_path: Path) -> None:
    place = str(tmp_path / "table")
    with embedded.session() as spark:
        for number in (1, 2):
            write(spark.range(number), place, form, overwrite=number > 1)
        with pytest.raises(PySparkException):
            write(spark.range(3), place, form, overwrite=False)
        assert spark.read.format(form).options(**({"header": True} if form == "csv" else {})).load(place).count() == 2


def test_an_engine_whose_parent_is_gone_before_it_serves_leaves_no_file(tmp_path: Path) -> None:
    folder = tmp_path / "engine"
    folder.mkdir()
    nobody, output = os.pipe()
    os.close(nobody)
    command = [sys.executable, "-P", "-m", "recorder.analysis.embedded_server", str(folder / "engine")]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.DEVNULL)
    os.close(output)
    assert done.returncode == 0
    assert not folder.exists()


def test_the_engine_leaves_the_network_of_the_machine() -> None:
    mine = os.readlink("/proc/self/ns/net")
    with engine() as (_, child):
        assert os.readlink(f"/proc/{child.pid}/ns/net") != mine


def test_the_engine_answers_queries_and_nothing_else(tmp_path: Path, rows: list[dict[str, Any]]) -> None:
    write_frames(tmp_path, rows, 100)
    with embedded.session() as session:
        found = captured(session, str(tmp_path), files_in(str(tmp_path)), is_tiny=True)
        for query in QUERIES:
            if not is_for_spark(query) and not query.startswith("from"):
                assert answer(found, query).columns, query
        for statement in STATEMENTS:
            # a single word is taken for a column
            with pytest.raises((click.UsageError, AnalysisException)):
                answer(found, statement)
        assert not session.catalog.tableExists("v")


def test_a_question_fails_at_once_when_the_engine_dies() -> None:
    with engine() as (session, child):
        child.kill()
        child.wait(PATIENCE)
        # with its own policy, the client would ask again for ten minutes
        with pytest.raises(EngineGone), as_click_errors(None, is_embedded=True):
            session.range(1).count()


def test_on_a_terminal_a_statement_that_fails_does_not_end_the_shell(
    tmp_path: Path, rows: list[dict[str, Any]]
) -> None:
    write_frames(tmp_path, rows, 100)
    command = [sys.executable, "-c", "from proxy.cli import main; main()", "sql", str(tmp_path), "--engine", "embedded"]
    master, slave = os.openpty()
    environment = os.environ | {"XDG_STATE_HOME": str(tmp_path / "state"), "TERM": "dumb", "COLUMNS": "200"}
    with subprocess.Popen(command, stdin=slave, stdout=slave, stderr=slave, env=environment) as shell:
        os.close(slave)
        steps = {b"sql> ": b"select nope from exchanges;\r", b"Error: ": b"select 6 * 7 as answer;\r", b"42": b"quit\r"}
        for mark, typed in steps.items():
            _read_up_to(master, mark)
            os.write(master, typed)
        assert shell.wait() == 0
        os.close(master)


def _read_up_to(terminal: int, mark: bytes) -> None:
    told = b""
    while mark not in told:
        told += os.read(terminal, 1 << 16)
