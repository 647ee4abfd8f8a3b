"""Tests of what sessions tell of themselves and of their clusters, in the summary of a capture."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from recorder.inspect.in_force import InForce
from recorder.inspect.summary import as_json, summarize
from tests.recorder.capture.test_told_by_brokers import record_answers
from tests.recorder.running import run


def event(kind: str, at_ns: int, cause: str | None = None, **told: Any) -> dict[str, Any]:
    row = {"session": "s", "cluster": "main", "at_ns": at_ns, "kind": kind, "cause": cause, "connection": None}
    return row | {"frames": None, "bytes": None, "detail": json.dumps(told)}


def test_the_newest_word_counts_whatever_the_order_of_events() -> None:
    found = InForce()
    found.add_events(
        [
            event("settings", 5, "changed", settings={"log.level": "debug"}, versions={"python": "3.12"}),
            event("settings", 1, "started", settings={"log.level": "info"}, versions={"python": "3.11"}),
            event("cluster", 3, ids=["new"], nodes=[{"node_id": 1, "host": "h", "port": 9, "rack": "r"}]),
            event("cluster", 2, ids=["old"]),
        ]
    )
    assert found.of_session("s")["settings"] == {"log.level": "debug"}
    assert found.of_session("s")["settings_changed"] == 1
    assert found.session_lines() == [("s", "", "3.12", "1", "1")]
    assert found.node_lines() == [("main", "new", "1", "h:9", "r")]


def test_what_is_not_told_or_is_of_another_type_is_unknown() -> None:
    found = InForce()
    odd = [event("settings", 1, settings=3, versions=[1]), event("cluster", 1, ids=3, nodes=[7], features={"a": 1})]
    found.add_events([*odd, event("settings", 2) | {"detail": "[", "session": "t"}])
    assert [line[3] for line in found.session_lines()] == ["not told", "not told"]
    assert found.node_lines() == []
    assert found.of_session("another") == {}


def test_the_summary_shows_it_in_short_and_as_json(tmp_path: Path) -> None:
    record_answers(tmp_path, in_force={("log", "level"): '"info"'})
    found = as_json(summarize(tmp_path))
    (cluster,) = found["clusters"]
    assert cluster["ids"] == ["an-id"]
    assert [node["rack"] for node in cluster["nodes"]] == ["east", None]
    assert cluster["features"] == {"metadata.version": 27}
    assert found["sessions"][0]["settings"] == {"log.level": '"info"'}
    printed = run("inspect", tmp_path).output
    assert "In force" in printed
    assert "east" in printed
