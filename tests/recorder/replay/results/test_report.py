"""Tests of a result's JSON, there and back; other JSON is refused in a sentence."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recorder.replay.outcome import (
    ApiCounts,
    Cause,
    Difference,
    Ending,
    Frame,
    Latency,
    Mismatch,
    ReachedTarget,
    Result,
    Source,
    Stream,
)
from recorder.replay.results import report
from tests.recorder.replay import some_results as results
from tests.recorder.replay.some_results import durations
from tests.tables import each_row

# a folder's name may hold bytes that are not UTF-8, which Python represents as lone surrogates
TEXT = st.text(st.characters(exclude_categories=()), max_size=8)
NUMBER = st.integers(0, 1 << 62)
DURATIONS = st.lists(NUMBER, max_size=5).map(durations)
COUNTS = st.dictionaries(TEXT, NUMBER, max_size=3).map(Counter)
APIS = st.builds(
    ApiCounts, NUMBER, NUMBER, NUMBER, NUMBER, NUMBER, NUMBER, withheld=COUNTS, partitions=COUNTS, mismatches=COUNTS
)
FRAMES = st.none() | st.builds(Frame, st.binary(max_size=20), NUMBER)
MISMATCHES = st.builds(
    Mismatch,
    *(TEXT, NUMBER, NUMBER, TEXT, NUMBER, NUMBER, TEXT),
    differences=st.lists(st.builds(Difference, TEXT, TEXT, TEXT), max_size=2).map(tuple),
    target_version=st.none() | NUMBER,
    request=FRAMES,
    recorded=FRAMES,
    replayed=FRAMES,
)
RESULTS = st.builds(
    Result,
    st.builds(Source, TEXT, st.lists(TEXT, max_size=2).map(tuple), NUMBER, NUMBER),
    st.builds(ReachedTarget, TEXT, st.none() | TEXT, st.dictionaries(st.integers(-1, 9), TEXT, max_size=2)),
    options=st.lists(TEXT, max_size=2).map(tuple),
    ending=st.sampled_from(Ending),
    apis=st.dictionaries(TEXT, APIS, max_size=2),
    made=COUNTS,
    maybe_twice=COUNTS,
    late=DURATIONS,
    lateness=st.dictionaries(st.sampled_from(Cause), DURATIONS),
    latency=st.dictionaries(TEXT, st.builds(Latency, DURATIONS, DURATIONS, st.booleans()), max_size=2),
    streams=st.lists(st.builds(Stream, TEXT, TEXT, NUMBER, NUMBER, NUMBER, NUMBER), max_size=2),
    had_records=st.lists(TEXT, max_size=2).map(tuple),
    had_offsets=st.lists(TEXT, max_size=2).map(tuple),
    mismatches=st.lists(MISMATCHES, max_size=2),
    max_mismatches=NUMBER,
    partial=st.floats(0, 100),
)


@given(RESULTS)
def test_a_report_is_read_as_it_was_written(result: Result) -> None:
    assert report.of_json(report.as_json(result)) == result


@given(RESULTS)
def test_a_report_within_a_page_is_the_same_and_ends_no_script(result: Result) -> None:
    line = report.as_script(result)
    assert not set(line) & set("<>&")
    assert report.of_json(line) == result


@pytest.mark.parametrize("before", ["", "<!doctype html>\n<p>report</p>"], ids=["json", "html"])
def test_both_forms_of_a_file_are_read(tmp_path: Path, before: str) -> None:
    result, file = results.different(), tmp_path / "report"
    inside = f"{report.OPENING}{report.as_script(result)}{report.CLOSING}</body>"
    file.write_text(before + inside if before else report.as_json(result))
    assert report.read(file) == result


def test_a_reports_json_has_derived_values_beside_the_counts() -> None:
    tree = json.loads(report.as_json(results.different()))
    assert (tree["format"], tree["version"]) == ("kafka-wiretap replay report", 1)
    assert (tree["verdict"], tree["exit_code"]) == ("mismatched", 1)
    assert tree["differences"] == 127 + tree["totals"]["lost"]
    assert tree["totals"]["sent"] == sum(api["sent"] for api in tree["apis"].values())
    late = tree["late"]
    assert late["count"] == sum(number for _, number in late["bins"])
    assert late["p50_ns"] <= late["p95_ns"] <= late["p99_ns"] <= late["most_ns"]


def test_the_modules_table_explains_each_key() -> None:
    tree = json.loads(report.as_json(results.different()))
    assert report.__doc__ is not None
    assert [key for key in {**tree, **tree["totals"]} if key not in report.__doc__] == []


def test_times_and_sizes_have_their_unit_in_their_key() -> None:
    unitless = {"p50", "p95", "p99", "at", "size", "span", "position", "late_max"}
    assert not unitless & set(_keys(json.loads(report.as_json(results.different()))))


def _keys(tree: Any) -> list[str]:
    if isinstance(tree, dict):
        return [*tree, *(key for value in tree.values() for key in _keys(value))]
    return [key for one in tree for key in _keys(one)] if isinstance(tree, list) else []


def test_no_secret_is_in_a_report() -> None:
    result = results.equal()
    result.add_mismatch(results.secret_mismatch())
    frames = [frame for one in result.mismatches for frame in (one.recorded, one.replayed) if frame]
    assert results.SECRET not in report.as_json(result)
    assert not [frame for frame in frames if results.SECRET.encode() in frame.octets]


def test_keys_of_later_versions_are_skipped() -> None:
    tree = json.loads(report.as_json(results.equal())) | {"a later key": {"p50_ns": [1]}}
    assert report.of_json(json.dumps(tree)) == results.equal()


def changed(**values: Any) -> str:
    return json.dumps(json.loads(report.as_json(results.equal())) | values)


@each_row(
    ("text", "said"),
    [
        ("", "no JSON"),
        ("[" * 100_000, "no JSON"),
        ("9" * 5000, "no JSON"),
        ("[]", "no report of"),
        (changed(format="x"), "no report of"),
        (changed(version=2), "version 2 of the report; known is 1"),
        (changed(apis=3), r"no whole report .* `\$.apis`"),
        (changed(late={"most_ns": 1, "bins": [[65, 1]]}), "no bins of durations"),
        (changed(made={"x": "1"}), r"no whole report"),
    ],
    ids=["empty", "deep", "long number", "list", "other", "later", "wrong type", "bins", "counts"],
)
def test_json_that_is_no_replay_report_is_refused_with_a_reason(text: str, said: str) -> None:
    with pytest.raises(report.NoReport, match=said):
        report.of_json(text)


def test_a_page_without_a_report_is_refused_by_its_name(tmp_path: Path) -> None:
    file = tmp_path / "index.html"
    file.write_text("<p>hello</p>")
    with pytest.raises(report.NoReport, match=r"index.html: a page without the report of a replay"):
        report.read(file)


def test_what_the_recording_refused_is_a_count_of_its_own() -> None:
    told = json.loads(report.as_json(results.different()))
    assert told["refused"] == {"requests": 1_311, "parts": 7}
    assert told["maybe_twice"] == {"payments": 1_200, "audit": 30}
