"""Tests of the section on topics."""

from __future__ import annotations

from recorder.analysis.summary.bounds import Top
from recorder.analysis.summary.sections.topics import Topics, TopicTotals
from recorder.analysis.summary.whole import Summary
from recorder.report.capture import markdown
from recorder.report.sections.topics import topics


def test_the_sentence_on_unread_topics_is_right_for_one_topic() -> None:
    rows = TopicTotals("a", written_bytes=1), TopicTotals("b", written_bytes=1, read_bytes=1)
    (plot,) = topics(Summary(topics=Topics(totals=Top(rows)))).plots
    assert plot.answer == "1 of 2 topics was written and never read: a."


def test_what_nobody_answered_counts_as_written_in_the_plot() -> None:
    (plot,) = topics(Summary(topics=Topics(totals=Top((TopicTotals("logs", unanswered_bytes=1),))))).plots
    assert plot.answer == "1 of 1 topic was written and never read: logs."


def test_topics_tell_what_was_refused_sent_again_or_not_answered_only_if_there_is_any() -> None:
    sound = TopicTotals("a", written_bytes=2000, written_records=2)
    assert "refused" not in text_of(sound)
    told = text_of(sound, TopicTotals("b", refused_records=6, retried_records=0, unanswered_records=3))
    assert "2.0 kB written, 0 B read; records refused: 6; records without an answer: 3." in told
    assert "sent again" not in told


def text_of(*totals: TopicTotals) -> str:
    """The section of topics as Markdown."""
    return markdown(Summary(topics=Topics(totals=Top(totals))))
