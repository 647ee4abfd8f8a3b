"""Tests of the recorder's commands: messages about missing requirements, and the calls to other modules."""

from __future__ import annotations

import errno
import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from click import ClickException
from click.testing import CliRunner
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from proxy.wire.error_reader import Unread
from recorder import analyze, extras, spark_options
from recorder.analysis.group_and_filter import Filters, Question
from recorder.analysis.place import Place
from recorder.analysis.report import Report
from recorder.analysis.running import as_click_errors, ask
from recorder.capture.compactor import Summary
from recorder.capture.frames import DamagedFileError
from recorder.capture.merging import CannotMerge, Merged
from recorder.filters import Held
from recorder.missing import Gaps, LostOfApi, Missing
from tests.recorder.running import run
from tests.s3 import store
from tests.tables import each_row

MISSING = Missing([Gaps("queue_full", 2, 0, 1606, 9000)], [LostOfApi("queue_full", "Produce", 1606, 8000)])
COVERAGE = {"api": "Fetch", "responses": 4, "read": 2} | dict.fromkeys(Unread, 0) | {"omitted": 2}


@pytest.fixture
def captured(tmp_path: Path) -> Path:
    (tmp_path / "frames" / "date=2026-11-21" / "hour=12").mkdir(parents=True)
    (tmp_path / "frames" / "date=2026-11-21" / "hour=12" / "a-1-1.parquet").touch()
    return tmp_path


@pytest.fixture
def analyzed(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """Replaces Spark by an answer; lists the questions."""
    asked: list[tuple[Any, ...]] = []
    row = {"api": "Fetch", "requests": 2000, "responses": 2, "unanswered": 1, "errors": 1}
    row |= {"request_bytes": 1500, "response_bytes": 10, "p50_ms": 1.5, "p95_ms": None, "p99_ms": 2000.0, "wait": None}
    error = {"api": "Fetch", "error_code": 1, "error": "OFFSET_OUT_OF_RANGE", "retriable": False, "flow": False}

    def answer(*question: Any) -> Report:
        asked.append(question)
        return Report(MISSING, [COVERAGE], [row], [error | {"count": 3, "exchanges": 1}])

    monkeypatch.setattr(analyze, "_analyzed", answer)
    # other tests check whether a master listens
    monkeypatch.setattr("recorder.analysis.master.check", lambda master: None)
    return asked


def test_analyze_without_java_prints_one_line(captured: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(captured))
    result = run("analyze", captured, "--engine", "spark")
    assert result.exit_code == 1
    assert result.stderr.startswith(f"Error: no Java found: JAVA_HOME is {captured}, ")
    assert result.stderr.count("\n") == 1


def test_analyze_on_an_empty_folder_prints_one_line(tmp_path: Path) -> None:
    result = run("analyze", tmp_path)
    assert result.exit_code == 2
    assert result.stderr.startswith(f"Error: {tmp_path} holds no capture")
    assert result.stderr.count("\n") == 1


def test_analyze_says_first_what_is_missing_then_what_could_be_read_and_then_the_rest(
    captured: Path, analyzed: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spark_options, "ready", lambda folder: ["a proxy is still recording session x"])
    said = [" ".join(line.split()) for line in run("analyze", captured).stdout.splitlines() if line.strip()]
    assert said[:11] == [
        "What is missing",
        "what API frames bytes",
        "not recorded: queue_full, 2 gaps 1 606 9.0 kB",
        "Produce 1 606 8.0 kB",
        "a proxy is still recording session x",
        "Errors are known of 2 of 4 responses (50 %).",
        "Responses that were not read",
        "API responses read not read",
        "Fetch 4 2 omitted 2",
        "Requests and latency by API",
        "API reqs unansw. errs sent received p50 ms p95 p99",
    ]


def test_a_note_says_that_no_log_is_read_behind_a_url(analyzed: list[Any]) -> None:
    assert "not looked for behind a URL: what a log holds" in run("analyze", "hdfs://host/capture").stdout
    # nor for the capture's files
    assert analyzed[0][0].files is None


def test_analyze_prints_both_tables(captured: Path, analyzed: list[Any]) -> None:
    result = run("analyze", captured)
    assert result.exit_code == 0, result.output
    words = [line.split() for line in result.stdout.splitlines()]
    assert ["Fetch", "2", "000", "1", "1", "1.5", "kB", "10", "B", "1.50", "2000"] in words
    assert ["Fetch", "OFFSET_OUT_OF_RANGE", "1", "no", "3", "1"] in words


def test_analyze_says_what_the_capture_holds_if_nothing_passes_the_filters(
    captured: Path, analyzed: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    nothing = Report(MISSING, [], [], [], held=Held(0, 10**9, ("Fetch",)))
    monkeypatch.setattr(analyze, "_analyzed", lambda *_: nothing)
    *_, sentence = run("analyze", captured, "--client", "nobody", "--api", "fetch").stdout.splitlines()
    assert sentence == (
        "no exchange passes --api Fetch --client nobody: the capture holds frames from 1970-01-01 00:00:00 to "
        "1970-01-01 00:00:01 UTC, of Fetch"
    )


def test_options_of_analyze_reach_the_job(captured: Path, analyzed: list[Any]) -> None:
    options = ["--master", "spark://host:7077", "--conf", "a.b=c=d", "--window", "1 minute"]
    result = run("analyze", captured, *options, "--out", captured / "out", "--format", "csv")
    assert result.exit_code == 0, result.output
    out = str(captured / "out")
    files = {"frames": [str(captured / "frames" / "date=2026-11-21" / "hour=12" / "a-1-1.parquet")], "events": []}
    place = Place(str(captured), "spark://host:7077", {"a.b": "c=d"}, files)
    assert analyzed == [(place, Question(window="60000 milliseconds"), analyze.Chosen(out, "csv", False, 50))]
    assert f"tables written to {out}" in result.stdout


def test_groupings_and_filters_reach_the_job(captured: Path, analyzed: list[Any]) -> None:
    options = [
        "--by",
        "software,version",
        "--api",
        "produce",
        "--client",
        "app",
        "--topic",
        "t",
        "--since",
        "2026-11-21",
    ]
    assert run("analyze", captured, *options, "--until", "2026-11-22T00:00").exit_code == 0
    day = 1_795_219_200 * 10**9
    only = Filters(((0, "kafka"),), ("app",), ("t",), day, day + 86_400 * 10**9)
    assert analyzed[0][1] == Question(("software", "api_version"), None, only)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--by", "colour"], "'colour' is nothing to ask by; right would be api, version, client_id,"),
        (
            ["--by", "client"],
            "'client' is nothing to ask by; did you mean client_id? There are api, version,",
        ),
        (["--by", "api,"], "'' is nothing to ask by"),
        (["--table", "exchange"], "'exchange' is no table; did you mean exchanges? There are frames, exchanges,"),
        (["--table", "moons"], "'moons' is no table; right would be frames, exchanges,"),
        (["--format", "parquet"], "--format parquet needs --out DIR"),
        (["--format", "csv"], "the answers are several tables; right would be --out DIR, or --table NAME"),
        (["--since", "noon"], "'noon' is no time; right would be"),
        (["--api", "fetsch"], "Fetch"),
    ],
    ids=["by", "by-similar", "by-nothing", "table-similar", "table", "parquet", "csv", "since", "api"],
)
def test_a_wrong_query_is_reported_with_a_correction(
    captured: Path, analyzed: list[Any], options: list[str], said: str
) -> None:
    result = run("analyze", captured, *options)
    assert result.exit_code == 2
    assert said in result.stderr


def test_answers_as_json_are_one_object(captured: Path, analyzed: list[Any]) -> None:
    found = json.loads(run("analyze", captured, "--format", "json").stdout)
    assert [*found] == ["missing", "coverage_by_api", "latency_by_api", "errors_by_api"]
    assert found["errors_by_api"][0]["error"] == "OFFSET_OUT_OF_RANGE"


def test_sql_lists_tables_and_tells_columns_without_java(captured: Path) -> None:
    listed = run("sql", captured, "tables").stdout.splitlines()
    assert [line for line in listed if line.startswith("topic_use ")] == [
        "topic_use         a client that writes or reads a topic  (slower where frames must be opened)"
    ]
    told = run("sql", captured, "describe", "exchanges").stdout
    assert run("sql", captured, "describe exchanges;").stdout == told
    assert "latency_ns " in told
    assert "from the request's last byte to the answer's first byte" in told


def test_a_wrong_table_in_a_query_is_told_before_spark_starts(captured: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def starts(*_arguments: Any) -> None:
        raise AssertionError("Spark starts")

    monkeypatch.setattr("recorder.analysis.java.missing", lambda: None)
    monkeypatch.setattr("recorder.analysis.running.ask", starts)
    result = run("sql", captured, "select api from exchange")
    assert result.exit_code == 2
    assert "'exchange' is no table; did you mean exchanges?" in result.stderr
    with_catalog = run("sql", captured, "select api from exchange", "--conf", "spark.sql.catalogImplementation=hive")
    assert isinstance(with_catalog.exception, AssertionError)


@pytest.mark.parametrize("words", [["select", "1"], ["describe"], ["describe", "a", "b"]], ids=["open", "none", "two"])
def test_sql_wants_its_query_in_one_piece(captured: Path, words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("recorder.analysis.java.missing", lambda: "no Java found")
    result = run("sql", captured, *words)
    assert result.exit_code in (1, 2)
    assert result.stderr.strip()


def test_an_unreadable_file_is_named_after_the_answers(
    captured: Path, analyzed: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = analyze._analyzed

    def broken(place: Place, *rest: Any) -> Report:
        place.broken["a-1-1.parquet"] = "it ends too early"
        report: Report = answer(place, *rest)
        return report

    monkeypatch.setattr(analyze, "_analyzed", broken)
    result = run("analyze", captured)
    assert result.exit_code == 1
    assert result.stderr.endswith("\nError: left out: a-1-1.parquet can't be read: it ends too early\n")
    assert "Requests and latency by API" in result.stdout


@pytest.mark.parametrize(("options", "is_said"), [((), True), (("--format", "json"), False)], ids=["tables", "json"])
def test_without_a_terminal_a_line_says_what_reads_the_capture_but_not_beside_json(
    captured: Path, analyzed: list[Any], options: tuple[str, ...], is_said: bool
) -> None:
    engines = {"embedded": "the embedded engine", "spark": "Spark; this takes from half a minute to some minutes"}
    for engine, named in engines.items():
        begun = f"reading {captured} with {named}\n"
        assert run("analyze", captured, *options, "--engine", engine).stderr == begun * is_said


@pytest.mark.parametrize(
    ("options", "is_embedded"),
    [
        ((), True),
        (("--engine", "spark"), False),
        (("--master", "local[2]"), False),
        (("--conf", "spark.executor.memory=2g"), False),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else None,
)
def test_a_small_capture_is_read_by_the_embedded_engine_unless_spark_is_meant(
    captured: Path, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...], is_embedded: bool
) -> None:
    asked = places_asked(monkeypatch)
    run("analyze", captured, *options)
    assert [place.is_embedded for place in asked] == [is_embedded]


def places_asked(monkeypatch: pytest.MonkeyPatch) -> list[Place]:
    """Lists the places that an engine is asked for; each run ends there."""
    asked: list[Place] = []

    def ask(place: Place, _: object) -> None:
        asked.append(place)
        raise SystemExit(0)

    monkeypatch.setattr("recorder.analysis.running.ask", ask)
    return asked


def test_a_large_capture_is_read_by_spark_but_by_the_embedded_engine_where_java_is_missing(
    captured: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = places_asked(monkeypatch)
    monkeypatch.setattr(spark_options, "SMALL", -1)
    run("analyze", captured)
    monkeypatch.setenv("JAVA_HOME", str(captured))
    assert "the embedded engine answers: no Java found" in run("analyze", captured).stderr
    assert [place.is_embedded for place in asked] == [False, True]


def test_an_engine_that_others_could_reach_answers_only_by_its_name(
    captured: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = places_asked(monkeypatch)
    monkeypatch.setattr("recorder.analysis.embedded_server.can_leave_network", lambda: False)
    run("analyze", captured)
    run("analyze", captured, "--engine", "embedded")
    assert [place.is_embedded for place in asked] == [False, True]


@pytest.mark.real
def test_a_small_capture_in_a_bucket_is_copied_for_the_embedded_engine_and_a_large_one_is_not(
    captured: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = places_asked(monkeypatch)
    with store() as served:
        for name, value in served.environment.items():
            monkeypatch.setenv(name, value)
        url = served.put(captured, "asked")
        run("analyze", url)
        monkeypatch.setattr(spark_options, "SMALL", -1)
        run("analyze", url)
        refused = run("analyze", url, "--engine", "embedded")
    small, large = asked
    assert (small.is_embedded, large.is_embedded) == (True, False)
    assert [place.files and place.files["frames"][0].startswith(url) for place in asked] == [False, True]
    assert small.files is not None
    assert Path(small.files["frames"][0]).is_file()
    assert refused.exit_code == 2
    assert "too large to be copied here: right would be --engine spark" in refused.stderr


def test_tables_at_a_url_are_written_by_spark(captured: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = places_asked(monkeypatch)
    run("analyze", captured, "--out", "hdfs://127.0.0.1:1/tables")
    assert [place.is_embedded for place in asked] == [False]
    refused = run("analyze", captured, "--out", "hdfs://127.0.0.1:1/tables", "--engine", "embedded")
    assert refused.exit_code == 2
    assert "right would be --engine spark" in refused.stderr


def test_the_embedded_engine_takes_no_option_of_sparks(captured: Path) -> None:
    result = run("analyze", captured, "--engine", "embedded", "--master", "local[2]")
    assert result.exit_code == 2
    assert "right would be --engine spark" in result.stderr


def test_behind_a_url_only_spark_answers(captured: Path) -> None:
    result = run("analyze", "hdfs://127.0.0.1:1/capture", "--engine", "embedded")
    assert result.exit_code == 2
    assert "right would be --engine spark" in result.stderr


def test_a_setting_without_a_value_is_refused_with_an_example(captured: Path, analyzed: list[Any]) -> None:
    result = run("analyze", captured, "--conf", "memory")
    assert result.exit_code == 2
    assert "right would be --conf spark.executor.memory=2g" in result.stderr


@pytest.mark.parametrize(
    "master",
    ["bogus", "localhost", "spark:7077", "", "local[abc]", "local[0]", "local[", "local[2]x", "local-cluster[2,1]"],
)
def test_a_bad_master_is_refused_before_spark_starts(captured: Path, analyzed: list[Any], master: str) -> None:
    result = run("analyze", captured, "--master", master)
    assert result.exit_code == 2
    assert result.stderr.endswith(f"{master!r} is no master; right would be local[*], local[2] or spark://HOST:PORT\n")
    assert analyzed == []


@pytest.mark.parametrize(
    "master", ["local", "local[4]", "local[*,2]", "local-cluster[2,1,1024]", "yarn", "k8s://https://h"]
)
def test_masters_are_those_that_spark_knows(captured: Path, analyzed: list[Any], master: str) -> None:
    assert run("analyze", captured, "--master", master).exit_code == 0
    assert analyzed[0][0].master == master


@pytest.mark.parametrize(
    ("window", "fault"),
    [
        *((text, "is no duration") for text in ("3 bananas", "minute", "", "-1 day")),
        *((text, "is shorter than 0.001s") for text in ("0.0004s", "0.9ms")),
        *((text, "is too long") for text in ("9" * 500, "40000 weeks")),
        ("0 minutes", "lets nothing through"),
    ],
    ids=range(9),
)
def test_a_window_that_is_no_duration_is_refused_before_spark(
    captured: Path, analyzed: list[Any], window: str, fault: str
) -> None:
    result = run("analyze", captured, "--window", window)
    assert result.exit_code == 2
    assert result.stderr.endswith(f'{window!r} {fault}; right would be --window 1m, "1 minute" or auto\n')
    assert analyzed == []


@pytest.mark.parametrize(
    ("window", "milliseconds"),
    [("1500ms", 1500), ("90 seconds", 90_000), ("1.5h", 5_400_000), ("2 HOURS", 7_200_000), ("1 week", 604_800_000)],
)
def test_a_window_reaches_spark_in_milliseconds(
    captured: Path, analyzed: list[Any], window: str, milliseconds: int
) -> None:
    assert run("analyze", captured, "--window", window).exit_code == 0
    assert analyzed[0][1].window == f"{milliseconds} milliseconds"


def test_tables_that_are_there_are_not_replaced_unasked(captured: Path, analyzed: list[Any]) -> None:
    (captured / "out" / "latency_by_api").mkdir(parents=True)
    assert "--overwrite replaces them" in run("analyze", captured, "--out", captured / "out").stderr
    assert analyzed == []
    assert run("analyze", captured, "--out", captured / "out", "--overwrite").exit_code == 0


def test_lines_of_a_table_are_printed_once_though_a_broken_file_has_it_asked_twice(
    captured: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Found:
        """Rows that come by partition; the second partition is broken at first."""

        columns = ("name",)
        broken = True

        def toLocalIterator(self) -> Any:  # noqa: N802 - Spark's name
            yield ("a\nb",)
            if self.broken:
                Found.broken = False
                raise ConnectionResetError
            yield ("ünï",)

    def ask_again(place: Any, question: Any) -> Any:
        with suppress(ConnectionResetError):
            return question(None)
        return question(None)

    monkeypatch.setattr("recorder.analysis.running.ask", ask_again)
    place, chosen = Place(str(captured)), analyze.Chosen(None, "csv", False, 10)
    with CliRunner().isolation() as (printed, *_):
        analyze.show_table(place, lambda _: Found(), "names", chosen)
    assert printed.getvalue().decode() == 'name\n"a\nb"\nünï\n'


def test_a_table_without_rows_is_a_sentence(
    captured: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("recorder.analysis.running.ask", lambda _, question: question(None))
    monkeypatch.setattr("recorder.analysis.output.table", lambda *_: (None, ""))
    monkeypatch.setattr("recorder.analysis.report.held", lambda _: Held(0, 0, ("Fetch",)))
    chosen = analyze.Chosen(None, None, False, 10)
    for filters, passes in (("--client nobody", "no row passes --client nobody"), ("", "no row")):
        analyze.show_table(Place(str(captured)), lambda _: None, "names", chosen, filters)
        assert capsys.readouterr().out == (
            f"{passes}: the capture holds frames from 1970-01-01 00:00:00 to 1970-01-01 00:00:00 UTC, of Fetch\n"
        )


def test_a_terminal_shows_that_a_capture_is_read_before_a_table(
    captured: Path, monkeypatch: pytest.MonkeyPatch, on_a_terminal: None
) -> None:
    monkeypatch.setattr("recorder.analysis.running.ask", lambda *_: None)
    with CliRunner().isolation() as (_, said, _):
        analyze.show_table(Place(str(captured)), lambda _: None, "names", analyze.Chosen(None, None, False, 10))
    assert "reading the capture ..." in said.getvalue().decode()


def test_compact_reports_the_compacted_sessions(captured: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "recorder.capture.compactor.compact", lambda folder, **_: Summary(("a", "b"), (), ("c",), 1200, 5000)
    )
    result = run("compact", captured)
    assert result.exit_code == 0
    assert result.stdout == (
        "compacted 2 sessions: 1 200 frames, 5.0 kB\nsession c is still being recorded: its closed segments are done\n"
    )


def test_compact_reports_that_there_is_nothing_to_do(captured: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("recorder.capture.compactor.compact", lambda folder, **_: Summary())
    assert run("compact", captured).stdout == "nothing to compact\n"


@pytest.mark.parametrize("options", [(), ("--merge", "OUT")], ids=["alone", "merge"])
def test_compact_reports_a_folder_without_a_capture(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...]
) -> None:
    monkeypatch.chdir(tmp_path)
    result = run("compact", tmp_path, *options)
    assert (result.exit_code, list(tmp_path.iterdir())) == (2, [])
    assert result.stderr.startswith(f"Error: {tmp_path} holds no capture: record one with")
    assert result.stderr.count("\n") == 1


MERGES = {
    "made": (
        Merged(120, 2, 1_200),
        "merged 120 files into 2 files of OUT: 1 200 frames\n",
    ),
    "made-and-waiting": (
        Merged(120, 2, 1_200, waiting=("2026-11-21 12:00", "2026-11-21 13:00")),
        "merged 120 files into 2 files of OUT: 1 200 frames\n"
        "not merged yet, because more may come: 2026-11-21 12:00 to 2026-11-21 13:00 UTC\n",
    ),
    "waiting": (
        Merged(waiting=("2026-11-21 12:00",)),
        "not merged yet, because more may come: 2026-11-21 12:00 UTC\n",
    ),
    "there": (Merged(merged_before=120), "nothing to merge: 120 files of it are merged\n"),
    "nothing": (Merged(), "nothing to merge\n"),
}


@pytest.mark.parametrize("case", MERGES)
def test_compact_reports_the_merged_files(captured: Path, monkeypatch: pytest.MonkeyPatch, case: str) -> None:
    outcome, said = MERGES[case]
    asked: list[tuple[Any, ...]] = []

    def merge(folder: Path, out: Path, *, file_bytes: int, **_: Any) -> Merged:
        asked.append((folder, out, file_bytes))
        return outcome

    monkeypatch.setattr("recorder.capture.merging.merge", merge)
    result = run("compact", captured, "--merge", "OUT", "--file-size", "2MiB")
    assert (result.exit_code, result.stdout) == (0, said)
    assert asked == [(captured, Path("OUT"), 2 << 20)]


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (CannotMerge("no"), 2),
        (DamagedFileError("no"), 1),
        (OSError(errno.ENOSPC, "no"), 1),
    ],
    ids=["cannot", "damaged", "full"],
)
def test_a_merge_that_fails_is_one_line(
    captured: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, code: int
) -> None:
    def merge(*_: Any, **__: Any) -> Merged:
        raise error

    monkeypatch.setattr("recorder.capture.merging.merge", merge)
    result = run("compact", captured, "--merge", "OUT")
    where = "OUT: " if isinstance(error, OSError) else ""
    assert (result.exit_code, result.stderr) == (code, f"Error: {where}no\n")


@pytest.mark.parametrize(
    ("options", "right"),
    [
        (("--merge", "s3://bucket/merged"), "right would be --merge with a folder of this machine"),
        (("--file-size", "2MiB"), "right would be --merge OUT as well"),
    ],
    ids=["url", "size-alone"],
)
def test_options_by_which_nothing_could_be_merged_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: tuple[str, str], right: str
) -> None:
    monkeypatch.chdir(tmp_path)
    result = run("compact", tmp_path, *options)
    assert (result.exit_code, list(tmp_path.iterdir())) == (2, [])
    assert right in result.stderr


def test_files_that_could_not_be_merged_are_named(captured: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("recorder.capture.merging.merge", lambda *_, **__: Merged(failed=("a.parquet: no",)))
    result = run("compact", captured, "--merge", "OUT")
    assert (result.exit_code, result.stdout, result.stderr) == (1, "", "Error: a.parquet: no\n")


def test_a_bad_file_size_is_refused_with_a_correction(tmp_path: Path) -> None:
    result = run("compact", tmp_path, "--merge", "OUT", "--file-size", "big")
    assert result.exit_code == 2
    assert "right would be --file-size 1GiB" in result.stderr


def test_compact_reports_a_folder_that_it_may_not_write(captured: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(folder: Path, **_: Any) -> Summary:
        raise PermissionError("the capture can't be written")

    monkeypatch.setattr("recorder.capture.compactor.compact", refuse)
    result = run("compact", captured)
    assert (result.exit_code, result.stderr) == (1, "Error: the capture can't be written\n")


def test_the_demo_without_its_clients_names_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    lacking = ("confluent_kafka", "aiokafka")
    monkeypatch.setattr(extras, "find_spec", lambda name: None if name in lacking else object())
    result = run("demo", "--folder", tmp_path)
    assert result.exit_code == 2
    assert result.stderr == f"Error: not installed: confluent_kafka, aiokafka; {extras.pip_install('demo')}\n"


def test_a_java_exception_is_one_line(tmp_path: Path) -> None:
    told = (
        "An error occurred while calling o615.collectToPython.\n"
        ": org.apache.spark.SparkException: [FAILED_READ_FILE.NO_HINT] can't read x.parquet.  SQLSTATE: KD001\n"
        "\tat org.apache.spark.sql.errors.QueryExecutionErrors$.cannotReadFilesError(QueryExecutionErrors.scala:920)\n"
        "Caused by: java.lang.RuntimeException: no Parquet file"
    )
    with pytest.raises(ClickException) as failed, as_click_errors(tmp_path / "log"):
        raise Py4JError(told)
    assert failed.value.message == (
        "Spark failed: org.apache.spark.SparkException: [FAILED_READ_FILE.NO_HINT] can't read x.parquet.  "
        f"SQLSTATE: KD001 (its log: {tmp_path / 'log'})"
    )


@pytest.mark.parametrize(
    ("last", "line"),
    [
        ("ValueError: no number", "the embedded engine failed: ValueError: no number; --engine spark may know more"),
        (
            "OSError: [Errno 28] No space left on device",
            "a disk is full (No space left on device); right",
        ),
    ],
)
def test_a_python_exception_of_the_embedded_engine_is_one_line(last: str, line: str) -> None:
    told = (
        "\n  An exception was thrown from the Python worker. Please see the stack trace below.\n"
        'Traceback (most recent call last):\n  File "tasks.py", line 34, in _worked\n    outcomes = []\n' + last + "\n"
    )
    with pytest.raises(ClickException) as failed, as_click_errors(None, is_embedded=True):
        raise PySparkException(told)
    assert failed.value.message.startswith(line)


def test_an_unreachable_master_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object, **__: object) -> None:
        raise Py4JError("An error occurred while calling None.Session.\n: java.lang.IllegalStateException: stopped")

    monkeypatch.setattr("recorder.analysis.job.session", refused)
    monkeypatch.setattr("signal.signal", lambda *_: None)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with pytest.raises(ClickException) as failed:
        ask(Place(str(tmp_path), "spark://nobody:1"), lambda _: None)
    assert failed.value.message.startswith("Spark did not start: java.lang.IllegalStateException: stopped (its log: ")


def test_a_listener_that_is_no_spark_master_is_a_wrong_option(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def gave_up(*_: object, log: Path, **__: object) -> None:
        log.write_text("ERROR StandaloneSchedulerBackend: All masters are unresponsive! Giving up.")
        raise Py4JError("java.lang.IllegalStateException: Cannot call methods on a stopped SparkContext.")

    monkeypatch.setattr("recorder.analysis.job.session", gave_up)
    monkeypatch.setattr("signal.signal", lambda *_: None)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with pytest.raises(ClickException) as failed:
        ask(Place(str(tmp_path), "spark://127.0.0.1:1"), lambda _: None)
    assert failed.value.exit_code == 2
    assert failed.value.message.startswith("no Spark master answers at spark://127.0.0.1:1, though something listens; ")
    assert "\n" not in failed.value.message


def test_tables_of_inspect_are_shown_in_one_session(captured: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[list[Place]] = []
    shown: list[str] = []

    @contextmanager
    def session_for(places: list[Place]) -> Iterator[Any]:
        opened.append(places)
        yield lambda place, question: None

    def show_table(place: Place, made: Any, title: str, *_: Any) -> None:
        shown.append(title)

    monkeypatch.setattr("recorder.analysis.running.session_for", session_for)
    monkeypatch.setattr("recorder.inspect_tables.show_table", show_table)
    assert run("inspect", "groups", captured, "billing", "--show", "lag,steps").exit_code == 0
    assert (len(opened), shown) == (1, ["Lag at the end", "Steps of members"])


@each_row(
    "options, line",
    [
        (["--show", "leg"], "'leg' is nothing to ask by; did you mean lag?"),
        (["--csv"], "these are several tables; right would be --show with one of them, or --json"),
    ],
)
def test_wrong_options_of_a_group_are_refused(captured: Path, options: list[str], line: str) -> None:
    result = run("inspect", "groups", captured, "billing", *options)
    assert result.exit_code == 2
    assert line in result.stderr
