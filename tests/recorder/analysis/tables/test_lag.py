"""Tests of lag by window: the log's end minus the last valid commit, at one moment."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from pyspark.sql import SparkSession

from recorder.analysis.tables.lag import LAG, SECOND_NS, Offsets, Span, aged, lag_windows, window_ns
from tests.recorder.analysis.by_hand import NOON, Row, frame

pytestmark = pytest.mark.real
KEY = "cluster string, topic string, life string, partition int"
COMMIT = f"{KEY}, group_id string, at timestamp, committed_offset bigint, is_commit boolean"
END = f"{KEY}, at timestamp, end_offset bigint, stable_offset bigint, control_offsets array<bigint>"
LIVES = "cluster string, topic string, life string, born timestamp, dies timestamp"
NOON_NS = round(NOON.timestamp()) * SECOND_NS
# eight windows of 10 s
WITHIN = Span(NOON_NS + 80 * SECOND_NS, 10 * SECOND_NS)


def moment(at: float | None) -> Any:
    return None if at is None else NOON + timedelta(seconds=at)


class Topic:
    """A topic of one partition with its ends, and its group's commits, each at a second after noon."""

    def __init__(self, name: str, ends: dict[float, int], commits: dict[float, int | None], **more: Any) -> None:
        self.name = name
        place = {"cluster": "c", "topic": name, "life": more.get("life", name), "partition": 0}
        facts = {"stable_offset": more.get("stable", {}), "control_offsets": more.get("controls", {})}
        self.ends: list[Row] = [
            place | {"at": moment(at), "end_offset": end} | {name: told.get(at) for name, told in facts.items()}
            for at, end in ends.items()
        ]
        self.commits: list[Row] = [
            place
            | {
                "at": moment(at),
                "group_id": "g",
                "committed_offset": offset,
                "is_commit": at not in more.get("told", ()),
            }
            for at, offset in commits.items()
        ]
        self.life: Row = place | {"born": moment(0), "dies": moment(more.get("dies"))}


TOPICS = (
    # 10 records a second up to 30 s; the consumer commits 50, then 150
    Topic("steady", {0: 0, 10: 100, 20: 200, 30: 300}, {12: 50, 22: 150}),
    # read to the end, markers and all: the last offset is a marker
    Topic("markers", {0: 0, 10: 12}, {11: 10}, controls={10: [5, 11]}, stable={10: 12}),
    # there is an open transaction from offset 4 on
    Topic("open", {0: 0, 10: 9}, {11: 2}, stable={10: 4}),
    # a Fetch told offset 100; then only producers are heard. Or a Fetch is heard in the same window
    Topic("only produced", {0: 0, 5: 100, 15: 200}, {6: 100}, stable={5: 100}),
    Topic("still fetched", {0: 0, 5: 100, 12: 150, 15: 200}, {6: 100}, stable={5: 100, 12: 150}),
    Topic("ahead", {0: 5}, {1: 8}),
    # a follower's end is behind
    Topic("follower", {0: 0, 10: 20, 11: 15}, {12: 20}),
    Topic("unmoved", {0: 0, 5: 10}, {6: 4}),
    # the group's offset is deleted
    Topic("deleted", {0: 7}, {1: 3, 25: None}),
    # nothing was committed yet, so the offset from the broker is no commit
    Topic("told", {0: 7}, {1: None, 15: 2}, told=(1, 15)),
    Topic("blind", {}, {1: 3}),
    # the lag began before the capture: its age is unknown
    Topic("old", {0: 100}, {1: 40}),
    Topic("reborn", {0: 50}, {1: 10}, life="first", dies=25),
    Topic("reborn", {26: 3}, {27: 3}, life="second"),
)


@pytest.fixture(scope="module")
def found(spark: SparkSession) -> dict[str, list[Any]]:
    """Returns the windows of each topic's life, in order."""
    kept = frame(spark, COMMIT, [row for topic in TOPICS for row in topic.commits])
    ends = frame(spark, END, [row for topic in TOPICS for row in topic.ends])
    offsets = Offsets(kept, ends, frame(spark, LIVES, [topic.life for topic in TOPICS]))
    made = aged(offsets, lag_windows(offsets, WITHIN), WITHIN)
    rows = made.select(*LAG.names).orderBy("window_end").collect()
    return {topic.life["life"]: [row for row in rows if row.topic_id == topic.life["life"]] for topic in TOPICS}


def told(rows: list[Any], *names: str) -> list[tuple[Any, ...]]:
    return [tuple(getattr(row, name) for name in names) for row in rows]


def test_each_window_has_its_last_least_and_largest_lag(found: Any) -> None:
    windows = told(found["steady"][:3], "end_offset", "committed_offset", "lag", "least_lag", "most_lag", "commits")
    assert windows == [(100, 50, 50, 50, 50, 1), (200, 150, 50, 50, 150, 1), (300, 150, 150, 150, 150, 0)]


def test_windows_without_a_step_continue_up_to_the_end_of_the_capture(found: Any) -> None:
    ends = [round(row.window_end.timestamp() - NOON.timestamp()) for row in found["steady"]]
    assert ends == [20, 30, 40, 50, 60, 70, 80, 80]
    assert told(found["steady"][3:], "lag", "least_lag", "commits") == [(150, 150, 0)] * 5


def test_the_age_of_lag_is_the_time_since_the_end_passed_the_commit(found: Any) -> None:
    """At 20 s, offset 50 was passed at 5 s; at 30 s, 150 was passed at 15 s."""
    assert [row.lag_ms for row in found["steady"][:3]] == [15_000, 15_000, 25_000]
    assert {row.lag_ms for row in found["follower"]} == {0}
    assert {row.lag_ms for row in found["old"]} == {None}


def test_control_batches_are_no_records_that_a_group_is_behind(found: Any) -> None:
    """Of offsets 10 and 11, the latter is a marker."""
    assert told(found["markers"][-1:], "lag", "lag_records", "readable_lag") == [(2, 1, 2)]


def test_a_reader_of_committed_records_is_behind_up_to_the_last_stable_offset(found: Any) -> None:
    assert told(found["open"][-1:], "lag", "readable_lag") == [(7, 2)]


def test_the_readable_lag_is_unknown_once_the_log_has_grown_without_a_fetch(found: Any) -> None:
    assert told(found["only produced"][:3], "lag", "readable_lag") == [(0, 0), (100, None), (100, None)]
    assert told(found["still fetched"][:3], "lag", "readable_lag") == [(0, 0), (100, 50), (100, None)]


def test_a_commit_beyond_the_known_log_end_has_no_lag(found: Any) -> None:
    assert {row.lag for row in found["ahead"]} == {0}


def test_a_follower_that_is_behind_takes_nothing_back(found: Any) -> None:
    assert {(row.end_offset, row.lag) for row in found["follower"]} == {(20, 0)}


def test_a_log_end_without_news_for_a_minute_is_stale(found: Any) -> None:
    stale = {round(row.window_end.timestamp() - NOON.timestamp()): row.is_stale for row in found["unmoved"]}
    assert [at for at, is_stale in stale.items() if is_stale] == [70, 80]


def test_a_deleted_offset_is_null(found: Any) -> None:
    assert told(found["deleted"], "committed_offset", "lag") == [(3, 4)] * 2 + [(None, None)] * 7


def test_an_offset_in_an_answer_is_not_a_commit(found: Any) -> None:
    assert told(found["told"][:3], "committed_offset", "lag", "commits") == [(None, None, 0), (2, 5, 0), (2, 5, 0)]


def test_without_an_end_the_lag_is_not_known(found: Any) -> None:
    assert set(told(found["blind"], "committed_offset", "end_offset", "lag", "lag_ms")) == {(3, None, None, None)}


def test_a_topic_that_is_recreated_begins_anew(found: Any) -> None:
    assert told(found["first"], "lag") == [(40,)] * 3
    assert set(told(found["second"], "end_offset", "lag")) == {(3, 0)}


@pytest.mark.parametrize(("minutes", "seconds"), [(9, 5), (10, 60)], ids=["short", "long"])
def test_short_captures_have_short_windows(minutes: int, seconds: int) -> None:
    assert window_ns(0, minutes * 60 * SECOND_NS) == seconds * SECOND_NS
