"""Each finished batch of a query is told once, and an idle query is asked for little."""

from __future__ import annotations

from typing import Any, cast

from pyspark.sql.streaming.query import StreamingQuery

from recorder.analysis.batch_progress import FinishedBatches, Progress

WATERMARK = "2026-11-21T12:04:00.000Z"


class Query:
    """A streaming query as Spark shows it. `asked`: how often its recent reports were read."""

    name = "latency_by_api"

    def __init__(self, *reports: dict[str, Any]) -> None:
        self.reports = [*reports]
        self.asked = 0

    @property
    def lastProgress(self) -> dict[str, Any] | None:  # noqa: N802 - Spark's name
        return self.reports[-1] if self.reports else None

    @property
    def recentProgress(self) -> list[dict[str, Any]]:  # noqa: N802 - Spark's name
        self.asked += 1
        return [*self.reports]


def finished(number: int, *, written: int = 0, held: int = 0, late: int = 0) -> dict[str, Any]:
    """Spark's report of a batch."""
    state = {"numRowsRemoved": written, "numRowsTotal": held, "numRowsDroppedByWatermark": late}
    return {
        "batchId": number,
        "durationMs": {"addBatch": 70, "triggerExecution": 80},
        "stateOperators": [state],
        "eventTime": {"watermark": WATERMARK},
    }


def idle(number: int) -> dict[str, Any]:
    """Spark's report of a query that has nothing to do before batch `number`: counts are those of the batch before."""
    return finished(number, held=9) | {"durationMs": {"latestOffset": 3, "triggerExecution": 4}}


def batches_of(query: Query) -> FinishedBatches:
    return FinishedBatches(cast(StreamingQuery, query))


def test_a_query_that_has_not_begun_has_no_progress() -> None:
    query = Query()
    assert [*batches_of(query).since_last_call()] == []
    assert query.asked == 0


def test_each_finished_batch_is_reported_once_with_its_counts() -> None:
    query = Query(finished(0, held=5), finished(1, written=3, held=2, late=1))
    batches = batches_of(query)
    assert [*batches.since_last_call()] == [
        Progress("latency_by_api", 0, 5, 0, WATERMARK),
        Progress("latency_by_api", 3, 2, 1, WATERMARK),
    ]
    query.reports.append(finished(2, written=1))
    assert [told.written for told in batches.since_last_call()] == [1]
    assert [*batches.since_last_call()] == []


def test_an_idle_query_tells_nothing_and_its_recent_reports_are_not_read_again() -> None:
    query = Query(finished(0), finished(1, written=3))
    batches = batches_of(query)
    assert len([*batches.since_last_call()]) == 2
    for _ in range(3):
        query.reports.append(idle(2))
        assert [*batches.since_last_call()] == []
    assert query.asked == 1


def test_a_batch_with_the_number_of_an_idle_report_is_reported_when_finished() -> None:
    query = Query(finished(0), idle(1))
    batches = batches_of(query)
    assert len([*batches.since_last_call()]) == 1
    query.reports += [idle(1), finished(1, written=4), idle(2)]
    assert [told.written for told in batches.since_last_call()] == [4]


def test_a_query_that_goes_on_from_a_checkpoint_and_is_idle_is_read_once() -> None:
    query = Query(idle(107))
    batches = batches_of(query)
    for _ in range(3):
        assert [*batches.since_last_call()] == []
    assert query.asked == 1
    query.reports += [finished(107, written=2), idle(108)]
    assert [told.written for told in batches.since_last_call()] == [2]


def test_a_batch_that_finishes_while_the_reports_are_read_is_reported_once() -> None:
    class Busy(Query):
        @property
        def recentProgress(self) -> list[dict[str, Any]]:  # noqa: N802 - Spark's name
            self.reports.append(finished(1, written=8))
            return super().recentProgress

    query = Busy(finished(0, written=7))
    batches = batches_of(query)
    assert [told.written for told in batches.since_last_call()] == [7, 8]
    assert [*batches.since_last_call()] == []
