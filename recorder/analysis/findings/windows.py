"""The windows of a capture: a minute each; 5 s in a capture of less than 10 minutes, so that there are enough of them.

Windows have the same bounds in all sessions. A session's first and last window are its edges: clients begin and end
there, brokers warm up, and windows are cut short. Rules that need time leave them out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody imports it

from recorder.analysis.findings.rows import WINDOW
from recorder.capture import frames as c

SECOND_NS = 10**9
MINUTE_NS = 60 * SECOND_NS
# In shorter captures minutes would be too few.
SHORT_CAPTURE_NS = 10 * MINUTE_NS
SHORT_WINDOW_NS = 5 * SECOND_NS
# What lasts is true in LASTING of NEAR windows that follow each other.
LASTING, NEAR = 3, 5
IS_EDGE = "is_edge"


@dataclass(frozen=True, slots=True)
class Windows:
    """The windows of a capture. `spans`: each session's first and last moment, in ns since 1970."""

    spans: Mapping[str, tuple[int, int]]

    @property
    def length_ns(self) -> int:
        """How long a window is."""
        if not self.spans:
            return SHORT_WINDOW_NS
        lasted = max(last for _, last in self.spans.values()) - min(first for first, _ in self.spans.values())
        return MINUTE_NS if lasted >= SHORT_CAPTURE_NS else SHORT_WINDOW_NS

    @property
    def seconds(self) -> float:
        """How long a window is."""
        return self.length_ns / SECOND_NS

    @property
    def judged(self) -> int:
        """How many windows there are in the longest session, without its edges."""
        return max((last - first - 1 for first, last in self._numbers.values()), default=0)

    @property
    def _numbers(self) -> dict[str, tuple[int, int]]:
        length = self.length_ns
        return {session: (first // length, last // length) for session, (first, last) in self.spans.items()}

    def number(self, at: str = c.AT) -> Column:
        """The number of the window of a moment."""
        return F.floor(F.unix_micros(at) * 1000 / self.length_ns)

    def put(self, rows: DataFrame, at: str = c.AT) -> DataFrame:
        """The rows with WINDOW, and IS_EDGE: whether it is their session's first or last one."""
        bounds = _bounds(rows.sparkSession, self._numbers)
        found = rows.withColumn(WINDOW, self.number(at)).join(F.broadcast(bounds), c.SESSION, "left")
        inside = (F.col(WINDOW) > F.col("_first")) & (F.col(WINDOW) < F.col("_last"))
        return found.withColumn(IS_EDGE, ~F.coalesce(inside, F.lit(False))).drop("_first", "_last")


def _bounds(spark: SparkSession, numbers: Mapping[str, tuple[int, int]]) -> DataFrame:
    rows = [(session, first, last) for session, (first, last) in numbers.items()]
    return spark.createDataFrame(rows, f"{c.SESSION} string, _first bigint, _last bigint")
