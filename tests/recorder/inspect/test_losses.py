"""Tests of the losses that are counted without Spark, against a plain count of what arrived and what is stored."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from recorder.inspect.losses import Losses
from recorder.inspect.summary import as_json, summarize
from recorder.missing import Gaps, LostOfApi, Missing
from tests.recorder.capture.lossy import make_lossy

Write = Callable[..., None]
Make = Callable[..., dict[str, Any]]


def event(kind: str, **other: Any) -> dict[str, Any]:
    nothing = dict.fromkeys(("connection", "cause", "frames", "bytes", "detail"))
    return {"session": "s", "at_ns": 1, "kind": kind} | nothing | other


@pytest.mark.parametrize("seed", range(3))
def test_the_arrived_frames_are_the_stored_the_lost_and_the_omitted_ones(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lossy = make_lossy(tmp_path, monkeypatch, seed)
    found = summarize(tmp_path).losses.missing
    found.apis.sort(key=lambda lost: lost.api)
    assert found == lossy.missing
    assert found.left_out > 0
    assert found.cut_bytes > 0
    assert found.gaps[0].frames > 0
    assert as_json(summarize(tmp_path))["missing"]["died"] == lossy.missing.died


def test_a_whole_capture_lacks_nothing(tmp_path: Path, written: Write, make_request: Make, make_response: Make) -> None:
    written(tmp_path, "frames", [make_request(0, 1, 0, 1, 12), make_response(1, 1, 1, 1, 12)])
    closed = event("closed", session="20261121T120000Z-abc", connection=1, frames=2)
    written(tmp_path, "events", [closed])
    assert not summarize(tmp_path).losses.missing


def test_omitted_frames_are_unknown_of_an_open_connection() -> None:
    losses = Losses()
    losses.add_frames("s", 1, 5)
    losses.add_events([event("gap", connection=1, frames=2, bytes=9, cause="queue_full")])
    assert losses.missing == Missing([Gaps("queue_full", 1, 0, 2, 9)])


def test_omitted_frames_are_unknown_of_a_connection_with_a_gap_of_unknown_size() -> None:
    losses = Losses()
    for connection in (1, 2):
        losses.add_frames("s", connection, 5)
        losses.add_events([event("opened", connection=connection), event("closed", connection=connection, frames=20)])
    losses.add_events([event("gap", connection=1, cause="spool_damaged", detail='{"lost": {}}')])
    losses.add_events([event("gap", connection=None, cause="spool_damaged", detail='{"state": 1}')])
    assert losses.missing.left_out == 15


def test_omitted_frames_are_unknown_of_a_connection_whose_beginning_was_removed() -> None:
    losses = Losses()
    losses.add_frames("s", 1, 5)
    losses.add_events([event("closed", connection=1, frames=20)])
    assert losses.missing == Missing()


def test_gaps_of_a_cause_are_added_up_with_those_of_unknown_size() -> None:
    losses = Losses()
    losses.add_events(
        [
            event("gap", cause="queue_full", frames=20, bytes=200, detail='{"connections": 3}'),
            event(
                "gap",
                cause="queue_full",
                connection=1,
                frames=2,
                bytes=20,
                detail='{"lost": {"Fetch": {"requests": 2}}}',
            ),
            event("gap", cause="spool_damaged", connection=1, detail='{"lost": {}}'),
        ]
    )
    assert losses.missing.gaps == [Gaps("queue_full", 2, 3, 22, 220), Gaps("spool_damaged", 1, 0, 0, 0)]
    # an event of a program version that did not count bytes
    assert losses.missing.apis == [LostOfApi("queue_full", "Fetch", 2, None)]
