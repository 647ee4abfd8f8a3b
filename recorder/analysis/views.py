"""SQL over a capture's tables: each table that a query names becomes a temporary view."""

from __future__ import annotations

import re

from pyspark.sql import DataFrame

from recorder.analysis.bodies import Captured
from recorder.analysis.sources import SOURCES, load


def answer(found: Captured, query: str) -> DataFrame:
    """Returns the rows of a query. Errors: Spark's AnalysisException and ParseException."""
    words = {word.lower() for word in re.findall(r"\w+", query)}
    for name in SOURCES:
        if name in words:
            load(found, name).createOrReplaceTempView(name)
    return found.spark.sql(query)
