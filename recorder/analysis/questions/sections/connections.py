"""The section on connections."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everybody imports it

from recorder.analysis.bodies import Captured
from recorder.analysis.questions.bins import bin_of, firsts, series
from recorder.analysis.summary.bounds import MAX_ROWS, Table, Timeline
from recorder.analysis.summary.sections.connections import CloseCause, Connections, ConnectionsOfClient
from recorder.analysis.table_cache import persisted
from recorder.analysis.tables.clients import host
from recorder.analysis.tables.happenings import connections as every_connection
from recorder.analysis.tables.happenings import is_probe
from recorder.capture import frames as c

_CONNECTION = [c.SESSION, c.CONNECTION]


def connections(captured: Captured, exchanges: DataFrame, line: Timeline) -> Connections:
    """Returns the section on connections: over time, by client, and by cause of their end."""
    ids = exchanges.groupBy(*_CONNECTION).agg(F.min_by(c.CLIENT_ID, c.EXCHANGE).alias(c.CLIENT_ID))
    with persisted(every_connection(captured).join(ids, _CONNECTION, "left")) as found:
        return _of(found, line)


def _of(found: DataFrame, line: Timeline) -> Connections:
    # a connection whose opening was not recorded is in no bin, but counts in the total
    opened = found.groupBy(F.when(F.col("opened_at").isNotNull(), bin_of(line, "opened_at"))).count().collect()
    causes = found.filter(F.col(c.CAUSE).isNotNull()).groupBy(c.CAUSE).count().orderBy(F.desc("count"), c.CAUSE)
    ended, kinds = firsts(causes, MAX_ROWS)
    return Connections(
        total=sum(count for _, count in opened),
        probes=found.filter(is_probe()).count(),
        opened=series("opened", line, map(tuple, opened), 0),
        clients=_by_client(found),
        causes=Table(tuple(CloseCause(*row) for row in ended), kinds),
    )


def _by_client(found: DataFrame) -> Table[ConnectionsOfClient]:
    life = (F.unix_micros("closed_at") - F.unix_micros("opened_at")) / 1000
    client = F.concat_ws(" at ", F.col(c.CLIENT_ID), host()).alias("client")
    rows = found.groupBy(client).agg(
        F.count("*").alias("opened"),
        F.count_if(F.col("closed_at").isNull()).alias("open"),
        F.median(life).alias("life"),
        F.coalesce(F.sum(c.BYTES), F.lit(0)).alias("bytes"),
    )
    shown, total = firsts(rows.orderBy(F.desc("opened"), "client"), MAX_ROWS)
    of = found.select(client, c.CAUSE).filter(F.col(c.CAUSE).isNotNull())
    wanted = of.filter(F.col("client").isin(*(row["client"] for row in shown))) if shown else of.limit(0)
    causes: dict[str, dict[str, int]] = {}
    for row in wanted.groupBy("client", c.CAUSE).count().collect():
        causes.setdefault(row[0], {})[row[1]] = row[2]
    return Table(
        tuple(
            ConnectionsOfClient(
                row["client"], row["opened"], row["open"], row["life"], row["bytes"], causes.get(row["client"], {})
            )
            for row in shown
        ),
        total,
    )
