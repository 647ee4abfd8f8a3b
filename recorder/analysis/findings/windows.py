"""The windows of a capture: a minute each; 5 s in a capture of less than 10 minutes, so that there are enough of them.

Windows have the same bounds in all sessions. A session's first and last window are its edges: clients begin and end
there, brokers warm up, and windows are cut short. Rules that must last leave them out.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everybody imports it

from recorder.analysis.expressions import ns
from recorder.analysis.findings.rows import WINDOW
from recorder.analysis.tables.lag import SECOND_NS, SHORT_WINDOW_NS, window_ns
from recorder.capture import frames as c

# A lag that stays, or keeps growing, does so in LONG consecutive windows.
LONG = 10
IS_EDGE = "is_edge"
_EDGES = "map<string, struct<first: bigint, last: bigint>>"


@dataclass(frozen=True, slots=True)
class Windows:
    """The windows of a capture. `spans`: each session's first and last moment, in ns since 1970."""

    spans: Mapping[str, tuple[int, int]]

    @property
    def length_ns(self) -> int:
        """The length of a window, in ns."""
        if not self.spans:
            return SHORT_WINDOW_NS
        firsts, lasts = zip(*self.spans.values(), strict=True)
        return window_ns(min(firsts), max(lasts))

    @property
    def seconds(self) -> float:
        """The length of a window, in seconds."""
        return self.length_ns / SECOND_NS

    @property
    def judged(self) -> int:
        """How many windows there are in the longest session, without its edges."""
        # a session within one window is all edge
        return max((max(0, last - first - 1) for first, last in self._numbers.values()), default=0)

    @property
    def _numbers(self) -> dict[str, tuple[int, int]]:
        length = self.length_ns
        return {session: (first // length, last // length) for session, (first, last) in self.spans.items()}

    def number(self, at: str = c.AT) -> Column:
        """The number of the window of a moment."""
        return F.floor(ns(at) / self.length_ns)

    def put(self, rows: DataFrame, at: str = c.AT) -> DataFrame:
        """The rows with WINDOW, and IS_EDGE: whether it is their session's first or last one."""
        found = rows.withColumn(WINDOW, self.number(at)).withColumn("_edges", self._edges())
        inside = (F.col(WINDOW) > F.col("_edges")["first"]) & (F.col(WINDOW) < F.col("_edges")["last"])
        return found.withColumn(IS_EDGE, ~F.coalesce(inside, F.lit(False))).drop("_edges")

    def spread(self, states: DataFrame, until: str) -> DataFrame:
        """A row for each window in which a state holds, with WINDOW and IS_EDGE.

        A state holds from AT to `until`; null: to the capture's end.
        """
        last_us = max((last for _, last in self.spans.values()), default=0) // 1000
        length_us = self.length_ns // 1000
        first = F.floor(F.unix_micros(c.AT) / length_us)
        last = F.floor(F.coalesce(F.unix_micros(until) - 1, F.lit(last_us)) / length_us)
        numbers = F.when(last >= first, F.sequence(first, last))
        spread = states.withColumn("_window", F.explode(numbers))
        at = F.timestamp_micros((F.col("_window") * length_us).cast("bigint"))
        return self.put(spread.withColumn("_at", at), "_at")

    def _edges(self) -> Column:
        """The first and the last window of a row's session, from a JSON literal in the plan: sessions are few."""
        numbers = {session: {"first": first, "last": last} for session, (first, last) in self._numbers.items()}
        return F.from_json(F.lit(json.dumps(numbers)), _EDGES)[F.col(c.SESSION)]
