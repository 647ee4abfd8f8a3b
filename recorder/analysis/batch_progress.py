"""What the batches of a streaming query wrote, as Spark reports it: each finished batch is told once.

Spark reports a finished batch, and every ten seconds an idle query: such a report has the number of the next batch, and
no "addBatch" among its durations. The newest report therefore says how many batches are finished, busy or idle.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from pyspark.sql.streaming.query import StreamingQuery

Report = Mapping[str, Any]


class Progress(NamedTuple):
    """The outcome of a query's batch. `late`: rows that were dropped because their windows had already been written."""

    table: str
    written: int
    held: int
    late: int
    watermark: str


class FinishedBatches:
    """The batches that a query has finished since the last call of `since_last_call`."""

    def __init__(self, query: StreamingQuery) -> None:
        self._query = query
        # the number of the newest batch that was told; -1: none
        self._reported = -1

    def since_last_call(self) -> Iterator[Progress]:
        """Yields the progress of each batch that has finished since.

        A call costs Spark one report as JSON. Only a call that follows a finished batch also costs the recent hundred.
        """
        newest: Any = self._query.lastProgress
        if newest is None or _finished(newest) <= self._reported:
            return
        for report in self._query.recentProgress:
            # a batch may have finished after `newest` was read: it is told now, and not again
            if _is_of_batch(report) and report["batchId"] > self._reported:
                self._reported = report["batchId"]
                yield from _progress(self._query.name, report)
        # a query that goes on from a checkpoint is idle behind batches that another process has told
        self._reported = max(self._reported, _finished(newest))


def _is_of_batch(report: Report) -> bool:
    return "addBatch" in report["durationMs"]


def _finished(report: Report) -> int:
    """Returns the number of the newest batch that is finished according to a report."""
    number: int = report["batchId"]
    return number if _is_of_batch(report) else number - 1


def _progress(table: str, report: Report) -> Iterator[Progress]:
    for state in report["stateOperators"]:
        counts = (state["numRowsRemoved"], state["numRowsTotal"], state["numRowsDroppedByWatermark"])
        yield Progress(table, *counts, report.get("eventTime", {}).get("watermark", ""))
