"""Tests of a capture's losses in words."""

from __future__ import annotations

from io import StringIO

import pytest
from rich.console import Console

from recorder.missing import Gaps, LostOfApi, Missing, missing_table, only_topics, samples

LOSSY = Missing(
    [Gaps("queue_full", 2, 0, 1606, 12_300_000), Gaps("spool_damaged", 1, 3, 0, 0)],
    [LostOfApi("queue_full", "Metadata", 2, None), LostOfApi("queue_full", "Produce", 1600, 12_100_000)],
    left_out=77,
    cut_frames=3000,
    cut_bytes=45_000_000,
    died=["20261121T130500Z-abcdef"],
    notes=["a proxy is still recording session x"],
)


def printed(found: Missing, width: int) -> list[str]:
    paper = StringIO()
    Console(width=width, file=paper).print(missing_table(found, width))
    return [" ".join(line.split()) for line in paper.getvalue().splitlines()]


def test_each_loss_is_a_line_with_the_apis_of_a_gap_below_it() -> None:
    assert printed(LOSSY, 140) == [
        "What is missing",
        "what API frames bytes",
        "not recorded: queue_full, 2 gaps 1 606 12.3 MB",
        "Produce 1 600 12.1 MB",
        "Metadata 2",
        "of unknown API 4",
        "lost from the log: spool_damaged, 1 gap, 3 connections never seen 0 0 B",
        "left out by the settings 77",
        "frames kept in part, by the settings 3 000 45.0 MB",
        "session 20261121T130500Z-abcdef died: what its proxy had not written yet",
        "a proxy is still recording session x",
    ]


def test_a_sentence_says_that_nothing_is_missing() -> None:
    assert printed(Missing(), 140) == ["Nothing is missing: no gaps, nothing left out, every session ended in order."]


@pytest.mark.parametrize("width", [40, 60, 80])
def test_the_table_of_losses_fits_any_terminal_and_cuts_no_number(width: int) -> None:
    paper = StringIO()
    Console(width=width, file=paper).print(missing_table(LOSSY, width))
    assert max(map(len, paper.getvalue().splitlines())) <= width
    assert "…" not in paper.getvalue()
    assert all(number in paper.getvalue() for number in ("1 606", "12.3 MB", "45.0 MB"))


def test_a_note_names_paths_as_everywhere_else() -> None:
    """A note's escaped parts stay as they are. A control character that was not escaped is escaped."""
    found = Missing(notes=["session x is another user's: kafka-wiretap compact a\\\\b finishes it", "\x1b[2J"])
    assert printed(found, 140) == [
        "What is missing:",
        "session x is another user's: kafka-wiretap compact a\\\\b finishes it",
        "\\u001b[2J",
    ]


def test_a_sample_is_said_to_be_one():
    told = {
        "capture.share": "0.01",
        "capture.shares.Fetch": "0.5",
        "capture.shares.Produce": "1.0",
        "capture.seed": "3",
    }
    found = Missing(samples=[*samples(told.items())])
    assert found
    text = "\n".join(printed(found, 140))
    assert "a sample, of which nothing is scaled: capture.share = 0.01" in text
    assert "capture.shares.Fetch = 0.5" in text
    assert "Produce" not in text
    assert [*samples({"capture.share": "1.0"}.items())] == []


def test_a_capture_of_chosen_topics_is_said_to_be_one():
    told = {"capture.only.topics": '["payments-*"]', "capture.only.apis": '["Fetch"]'}
    found = Missing(only_topics=[*only_topics(told.items())])
    assert found
    assert 'chosen topics only: capture.only.topics = ["payments-*"]' in printed(found, 140)
    assert "Fetch" not in "".join(printed(found, 140))
