"""Tests of the study's sums, by api and by field, over all versions."""

from __future__ import annotations

import json
from typing import Any

import pytest
from rich.console import Console

from recorder.encodings.document import CONTRADICTIONS
from recorder.encodings.screen import shown
from recorder.encodings.study import Study, chosen, study
from recorder.encodings.times import WAYS, Chosen, Timed
from tests import hostile_text


def row(path: str | None, sizes: tuple[int, ...], version: int = 12, **other: Any) -> dict[str, Any]:
    """A row of Metadata responses: their bytes fixed, signed, unsigned, at best and at worst."""
    names = ("fixed_bytes", "signed_bytes", "unsigned_bytes", "best_bytes", "worst_bytes")
    best, worst = (None, None) if path is None else ("unsigned", "fixed")
    found = {"api": "Metadata", "side": "response", "api_version": version, "path": path, "messages": 2}
    sent = {"sent_bytes": sizes[0] if path is None else None, "best": best, "worst": worst}
    return found | sent | dict(zip(names, sizes, strict=True)) | other


ROWS = [
    row(None, (100, 80, 70, 60, 110)),
    row(None, (50, 40, 45, 40, 55), 11),
    row("b", (8, 4, 2, 2, 8)),
    row("b", (8, 4, 10, 4, 10), 11, best="signed", worst="unsigned"),
    row("a", (40, 10, 10, 10, 40)),
    row(None, (30, 30, 30, 30, 30), 4, api="Heartbeat", side="request"),
]


def test_versions_of_an_api_are_one_row_and_the_largest_stands_first() -> None:
    found = study(ROWS, {})
    assert [(one.api, one.side, one.versions, one.messages, one.sent) for one in found.bodies] == [
        ("Metadata", "response", (11, 12), 4, 150),
        ("Heartbeat", "request", (4,), 2, 30),
    ]
    assert found.bodies[0].sizes == {"fixed": 150, "signed": 120, "unsigned": 115, "best": 100, "worst": 165}
    assert found.bodies[0].ratio("best") == pytest.approx(2 / 3)


def test_the_fields_that_save_most_stand_first_with_all_their_best_encodings() -> None:
    found = study(ROWS, {})
    assert [(one.path, one.saved, one.best, one.worst) for one in found.fields] == [
        ("a", 30, ("unsigned",), ("fixed",)),
        ("b", 10, ("signed", "unsigned"), ("fixed", "unsigned")),
    ]


def test_all_bodies_are_summed() -> None:
    total = study(ROWS, {}).total
    assert (total.messages, total.sent, total.sizes["fixed"], total.sizes["worst"]) == (6, 180, 180, 195)
    assert study([], {}).total.ratio("best") == 1


def test_each_version_has_its_own_best() -> None:
    assert chosen(ROWS) == {
        ("Metadata", "response", 12): Chosen({"b": "unsigned", "a": "unsigned"}, {"b": "fixed", "a": "fixed"}),
        ("Metadata", "response", 11): Chosen({"b": "signed"}, {"b": "unsigned"}),
    }


def on_a_terminal(found: Study, limit: int = 20, width: int = 160) -> str:
    paper = Console(width=width, record=True, file=open("/dev/null", "w"))  # noqa: SIM115 - it ends with the test
    for one in shown(found, width, limit):
        paper.print(one)
    return paper.export_text()


TIMES = [Timed("Metadata", "response", 2, dict.fromkeys(WAYS, 1.5), dict.fromkeys(WAYS, 1.25))]


def test_the_captures_answers_stand_beside_the_documents_figures() -> None:
    text = on_a_terminal(study(ROWS, {"masked": 2, "cut": 1}, TIMES))
    lines = [" ".join(line.split()) for line in text.splitlines()]
    assert lines[0] == "3 frames could not be read: cut 1, masked 2."
    assert "all 6 180 B 180 B 0.83 0.81 0.72 1.08" in lines
    assert "fixed 3 216 1.00 1.00 1.00" in lines
    assert "unsigned, at best 1 170 0.36 1.16 1.02" in lines
    assert "this capture's answers, unsigned 115 0.77 1.50 1.25" in lines
    assert lines[-1] == f"The document contradicts itself in {len(CONTRADICTIONS)} places: see docs/encodings.md."


@pytest.mark.parametrize("width", [55, 80, 100, 120])
def test_a_narrow_terminal_shows_of_which_api_and_side_numbers_are_and_names_those_left_out(width: int) -> None:
    long = row(None, (20,) * 5, api="GetTelemetrySubscriptions")
    times = [TIMES[0]._replace(api="GetTelemetrySubscriptions")]
    lines = on_a_terminal(study([long, *ROWS], {}, times), width=width).splitlines()
    assert max(map(len, lines)) <= width
    title = lines.index("Processor time as ratios to fixed, median of rounds")
    names, labels, *others = (line.split() for line in lines[title + 1 :])
    assert names[:2] == ["API", "side"]
    assert labels[:2] in (["GetTelemetry", "response"], ["GetTelemetrySubscriptions", "response"])
    shown_or_left_out = " ".join(" ".join(words) for words in [names, *others[: others.index([])]])
    for name in ("messages", *(f"{verb} {way}" for verb in ("write", "read") for way in WAYS[1:])):
        assert name in shown_or_left_out


def test_a_note_says_that_there_are_more_rows() -> None:
    text = on_a_terminal(study(ROWS, {}, TIMES), 1)
    assert "the first 1 of 2 rows: --limit shows more, --format json all" in text
    assert "the first 1 of 2 fields" in text


def test_a_study_of_no_messages_has_no_table() -> None:
    lines = on_a_terminal(study([], {"masked": 2})).splitlines()
    nothing = "Nothing to count: no message is of this time, or none can be read."
    assert lines == ["2 frames could not be read: masked 2.", nothing]


def test_without_times_there_is_no_table_of_them() -> None:
    text = on_a_terminal(study(ROWS, {}))
    assert "Processor time" not in text
    assert "this capture's answers, best" in text


def test_names_of_others_do_nothing_to_a_terminal() -> None:
    rows = [row(None, (1,) * 5, api=hostile_text.TEXT), row(hostile_text.TEXT, (1,) * 5)]
    assert hostile_text.obeyed(on_a_terminal(study(rows, {}))) == []


def test_json_has_all_of_it() -> None:
    found = json.loads(json.dumps(study(ROWS, {"cut": 1}, TIMES).as_json()))
    assert {name: len(found[name]) for name in ("bodies", "fields", "times")} == {"bodies": 2, "fields": 2, "times": 1}
    assert found["unread"] == {"cut": 1}
    assert found["document"]["figures"][0]["bytes"] == 3216
    assert found["document"]["contradictions"] == [*CONTRADICTIONS]
    assert found["total"]["sizes"]["best"] == 130
