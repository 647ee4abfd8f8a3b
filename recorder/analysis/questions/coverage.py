"""Counts the responses whose errors are known, and the unread responses by reason."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everybody imports it

from proxy.wire.error_reader import Unread
from recorder.analysis import columns as t
from recorder.analysis.questions.groups import groups
from recorder.capture import frames as c


def coverage_by_api(exchanges: DataFrame) -> DataFrame:
    """Counts per api: RESPONSES, those that were READ, and for each reason (`Unread`) those that were not.

    Needs API, API_KEY, ANSWERED_AT and UNREAD.
    """
    answered = exchanges.filter(F.col(t.ANSWERED_AT).isNotNull())
    return answered.groupBy(*groups((c.API,), None)).agg(
        F.count("*").alias(t.RESPONSES),
        F.count_if(F.col(t.UNREAD).isNull()).alias(t.READ),
        *(F.count_if(F.col(t.UNREAD) == why.value).alias(why.value) for why in Unread),
    )
