"""Latencies counted in buckets, without reading bodies. The counts add up over windows, hours and captures.

Percentiles don't add up. Buckets do, and give percentiles to 4.5 % (`questions.latency.percentiles_of_buckets`). Bucket
n holds latencies from 2^(n/8) - 1 µs up to 2^((n+1)/8) - 1 µs. With eight buckets to each doubling, a few hundred reach
from a microsecond to hours.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everybody imports it

from proxy.wire.long_polls import Wait
from recorder.analysis import columns as t
from recorder.analysis.bodies import Captured
from recorder.analysis.expressions import api
from recorder.analysis.tables.exchanges import answered_exchanges, both_sizes
from recorder.capture import frames as c
from recorder.facts.schema import Column as Declared
from recorder.facts.schema import Table

MINUTE = "minute"
PER_DOUBLING = 8

LATENCY_BUCKETS = Table(
    "latency_buckets",
    "a client's exchanges with an api, of one minute and one latency bucket",
    (
        Declared(MINUTE, "timestamp", "the minute in which the requests arrived"),
        Declared(c.CLUSTER, "string", "the cluster's name in the settings"),
        Declared(c.NODE, "int", "the broker's node id; null while unknown"),
        Declared(c.API, "string", "the api's name"),
        Declared(c.API_VERSION, "smallint", "the requests' version"),
        Declared(c.CLIENT_ID, "string", "as the requests say"),
        Declared(
            t.WAIT,
            "string",
            f"`{Wait.INCLUDES_WAIT}`: a long poll, whose latency may be a wait that the client asked for; null for all "
            "others",
        ),
        Declared(t.BUCKET, "int", f"floor({PER_DOUBLING} log2(latency in µs + 1))"),
        Declared(t.COUNT, "bigint", "how many answers"),
        Declared(c.BYTES, "bigint", "bytes of these answers and their requests"),
    ),
)
_BY = [one.name for one in LATENCY_BUCKETS.columns if one.name not in (t.COUNT, c.BYTES)]


def latency_buckets(captured: Captured) -> DataFrame:
    """One row for each minute, api, version, node, client id and bucket: the columns of LATENCY_BUCKETS.

    Exchanges without an answer, and those that the proxy answered, have no latency and are left out.
    """
    facts = {MINUTE: F.date_trunc("minute", c.AT), c.API: api(), t.BUCKET: _bucket()}
    answered = answered_exchanges(captured).filter(F.col(c.LATENCY_NS) >= 0).withColumns(facts)
    found = answered.groupBy(*_BY).agg(F.count("*").alias(t.COUNT), F.sum(both_sizes()).alias(c.BYTES))
    return found.select(*LATENCY_BUCKETS.names)


def middle_ms(bucket: str = t.BUCKET) -> Column:
    """The latency that stands for all of a bucket's: the geometric middle of its bounds, in milliseconds."""
    return (F.pow(F.lit(2.0), (F.col(bucket) + 0.5) / PER_DOUBLING) - 1) / 1000


def _bucket() -> Column:
    return F.floor(PER_DOUBLING * F.log2(F.col(c.LATENCY_NS) / 1000 + 1)).cast("int")
