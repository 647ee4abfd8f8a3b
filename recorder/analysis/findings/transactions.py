"""Rules on transactional producers: transactions that stay open, and producers that were replaced.

A consumer of committed records gets no record behind the first one of an open transaction, of whatever producer.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - as everybody imports it

from recorder.analysis import columns as t
from recorder.analysis.findings.counting import counted, rule_rows
from recorder.analysis.findings.rows import CASES, MEASURE, WINDOW
from recorder.analysis.findings.tables import CLUSTER_ID, PEER, Tables
from recorder.analysis.tables.transactions import ABORTED, BY_MARKER
from recorder.capture import frames as c

# INVALID_PRODUCER_EPOCH, PRODUCER_FENCED
FENCED = (47, 90)
# the coordinator looks for transactions that are open too long every 10 s (transaction.abort.timed.out...interval.ms)
_TIMEOUTS_SEEN_WITHIN_US = 10_000_000
_OWNER = [CLUSTER_ID, "transactional_id", PEER]


def open_transactions(tables: Tables) -> DataFrame:
    """How long a producer left a transaction open without adding to it. Consumers of committed records wait for its
    end. If the capture lacks the time of the end, the timeout or the capture's end counts, whichever comes first.
    """
    last_us = max((last for _, last in tables.windows.spans.values()), default=0) // 1000
    began_us = F.unix_micros("begun_at")
    timed_out_us = began_us + F.col("timeout_ms") * 1000 + _TIMEOUTS_SEEN_WITHIN_US
    is_given_up = (F.col("outcome") == ABORTED) & (F.col("told_by") == BY_MARKER) & timed_out_us.isNotNull()
    seen_us = F.when(F.col("outcome").isNull() | is_given_up, F.least(F.lit(last_us), timed_out_us))
    ended_us = F.coalesce(F.unix_micros("ended_at"), seen_us)
    idle_ms = (ended_us - F.unix_micros(F.coalesce("last_at", "begun_at"))) / 1000
    of_owner = Window.partitionBy(*_OWNER)
    found = tables.transactions.withColumns({WINDOW: F.lit(0), "_idle": idle_ms}).filter(F.col("_idle") > 0)
    worst = found.withColumn("_longest", F.max("_idle").over(of_owner)).filter(F.col("_idle") == F.col("_longest"))
    cases = counted(worst, [*_OWNER, "_longest"], at="begun_at")
    subject = F.concat("transactional_id", F.lit(" of "), PEER)
    return rule_rows(cases.withColumn(MEASURE, F.col("_longest")), subject)


def fenced(tables: Tables) -> DataFrame:
    """Answers that tell a producer that another one has its transactional id, or that its transaction timed out. The
    transaction is aborted.
    """
    wrong = tables.errors.filter(F.col(t.ERROR_CODE).isin(*FENCED))
    cases = counted(wrong, [PEER, t.ERROR, c.API])
    subject = F.concat(PEER, F.lit(": "), c.API)
    words = {"client": PEER, "error": t.ERROR, "api": c.API}
    return rule_rows(cases.withColumn(MEASURE, F.col(CASES)), subject, words)
