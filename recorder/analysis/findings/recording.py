"""A rule on the capture itself: the traffic that it lacks."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everybody imports it

from recorder.analysis.findings.counting import counted, rule_rows
from recorder.analysis.findings.rows import MEASURE, WINDOW
from recorder.analysis.findings.tables import Tables
from recorder.analysis.tables.happenings import gaps as all_gaps
from recorder.capture import frames as c


def gaps(tables: Tables) -> DataFrame:
    """Stretches of traffic that were not recorded, or whose record is lost, by cause."""
    found = all_gaps(tables.captured).withColumn(WINDOW, F.lit(0))
    size = F.coalesce(c.BYTES, F.lit(0))
    cases = counted(found, [c.CAUSE], worst=size)
    known = found.groupBy(c.CAUSE).agg(F.sum(size).alias("_bytes"))
    words = {"bytes": F.col("_bytes")}
    return rule_rows(cases.join(F.broadcast(known), [c.CAUSE]).withColumn(MEASURE, F.col("cases")), c.CAUSE, words)
