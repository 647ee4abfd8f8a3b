"""Clients: their software, the api versions that they use, and what Kafka 4 does to these versions.

A client names its software in ApiVersions, once a connection. `fate` is about versions that Kafka 4 has dropped
(KIP-896): it says whether the client's broker offered a newer one. Requests between brokers have no fate, because
brokers are upgraded together.
"""

from __future__ import annotations

from functools import partial

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everybody imports it

from proxy.wire import apis, keys
from proxy.wire.dialects import Dialect
from proxy.wire.releases import FLOORS_OF, versions_in
from recorder.analysis import columns as t
from recorder.analysis.bodies import Captured, rows
from recorder.analysis.tables.happenings import CONNECTIONS as HAPPENED
from recorder.analysis.tables.happenings import connections
from recorder.capture import frames as c
from recorder.facts.schema import Column as Declared
from recorder.facts.schema import Table
from recorder.facts.software import OFFERS, REPLICAS, SOFTWARE

# the release that `fate` is about
RELEASE = FLOORS_OF
CUT, HELD_BACK, UNSURE = "cut", "held_back", "unsure"
# the apis that only brokers use in the versions that the release refuses
_OF_BROKERS = (keys.OFFSET_FOR_LEADER_EPOCH, keys.WRITE_TXN_MARKERS, keys.ALTER_PARTITION)
_CONNECTION = [c.SESSION, c.CONNECTION]
HOST, FATE = "host", "fate"

CLIENTS = Table(
    "clients",
    "a client's use of one version of an api",
    (
        Declared("software", "string", "the client's library, as it calls itself; null before ApiVersions 3"),
        Declared("software_version", "string", "its version"),
        Declared(c.CLIENT_ID, "string", "as its requests say"),
        Declared(c.PRINCIPAL, "string", "who was logged in"),
        Declared(HOST, "string", "the address that it came from, without the port"),
        Declared(c.API, "string", "the api's name"),
        Declared(c.API_VERSION, "smallint", "the version that it used"),
        Declared(t.REQUESTS, "bigint", "how many requests"),
        Declared("first_at", "timestamp", "when the first of them arrived"),
        Declared("last_at", "timestamp", "when the last of them arrived"),
        Declared(
            FATE,
            "string",
            f"null: {RELEASE} accepts the version, or a broker uses it. All others are for versions that {RELEASE} "
            f"refuses. `{CUT}`: the client's broker offered a newer one, or was not asked; `{HELD_BACK}`: the broker "
            f"offered none that {RELEASE} accepts; `{UNSURE}`: the capture does not show whether the client asked",
        ),
    ),
    needs_bodies=True,
)
CONNECTIONS = Table(
    "connections",
    HAPPENED.row,
    (
        *HAPPENED.columns,
        Declared("software", "string", "the client's library, as it calls itself; null before ApiVersions 3"),
        Declared("software_version", "string", "its version"),
    ),
    needs_bodies=True,
)


def connections_with_software(captured: Captured) -> DataFrame:
    """One row a connection: the columns of CONNECTIONS."""
    return connections(captured).join(F.broadcast(software(captured)), _CONNECTION, "left").select(*CONNECTIONS.names)


def software(captured: Captured) -> DataFrame:
    """What the client of each connection calls itself: SESSION, CONNECTION, `software`, `software_version`."""
    return captured.once("software of connections", partial(_software, captured))


def _software(captured: Captured) -> DataFrame:
    reported = rows(captured, SOFTWARE).filter(F.col("software").isNotNull())
    return reported.groupBy(*_CONNECTION).agg(
        *(F.max_by(name, c.SEQUENCE).alias(name) for name in ("software", "software_version"))
    )


def host(client: str = c.CLIENT) -> Column:
    """The address in `address:port`."""
    return F.regexp_replace(client, r":\d+$", "")


def clients(captured: Captured) -> DataFrame:
    """One row for each client, api and version: the columns of CLIENTS."""
    return captured.once(CLIENTS.name, partial(_clients, captured))


def _clients(captured: Captured) -> DataFrame:
    is_request = (F.col(c.KIND) == c.REQUEST) & (F.col(c.DIALECT) == Dialect.KAFKA.value)
    used = captured.chosen.filter(is_request & F.col(c.API_VERSION).isNotNull())
    of_connection = used.groupBy(
        *_CONNECTION, c.CLIENT_ID, c.PRINCIPAL, host().alias(HOST), c.API_KEY, c.API, c.API_VERSION
    ).agg(F.count("*").alias("n"), F.min(c.AT).alias("first"), F.max(c.AT).alias("last"))
    with_software = _with_fates(of_connection, captured).join(F.broadcast(software(captured)), _CONNECTION, "left")
    keys_of = [name for name in CLIENTS.names if name not in (t.REQUESTS, "first_at", "last_at")]
    found = with_software.groupBy(*keys_of).agg(
        F.sum("n").alias(t.REQUESTS), F.min("first").alias("first_at"), F.max("last").alias("last_at")
    )
    return found.select(*CLIENTS.names)


def _with_fates(used: DataFrame, captured: Captured) -> DataFrame:
    """The rows with FATE."""
    floor = _floor()
    is_below = (F.col(c.API_VERSION) < floor) & ~F.col(c.API_KEY).isin(*_OF_BROKERS)
    offered = rows(captured, OFFERS).filter(F.col("offered_key").isNotNull())
    newest = offered.groupBy(*_CONNECTION, F.col("offered_key").alias(c.API_KEY)).agg(
        F.max("offered_to").alias("newest")
    )
    negotiated = offered.select(*_CONNECTION).distinct().withColumn("negotiated", F.lit(True))
    begun = captured.events.filter(F.col(c.KIND) == c.EVENT_OPENED).select(*_CONNECTION).distinct()
    copying = rows(captured, REPLICAS).filter(F.col("replica_id").isNotNull()).select(*_CONNECTION).distinct()
    fate = (
        F.when(~F.coalesce(is_below, F.lit(False)) | F.col("copying"), F.lit(None).cast("string"))
        .when(F.col("newest") >= floor, CUT)
        .when(F.col("negotiated"), HELD_BACK)
        .when(F.col("begun"), CUT)
        .otherwise(UNSURE)
    )
    return (
        used.join(newest, [*_CONNECTION, c.API_KEY], "left")
        .join(F.broadcast(negotiated), _CONNECTION, "left")
        .join(F.broadcast(begun.withColumn("begun", F.lit(True))), _CONNECTION, "left")
        .join(F.broadcast(copying.withColumn("copying", F.lit(True))), _CONNECTION, "left")
        .withColumn(FATE, fate)
        .drop("newest", "negotiated", "begun", "copying")
    )


def _floor() -> Column:
    """The oldest version of the row's api in the release. Null if that is 0, or if the release lacks the api: only
    brokers used the dropped apis.
    """
    found = F.lit(None).cast("int")
    for key in apis.api_keys():
        known = versions_in(RELEASE, key)
        if known and known.start > 0:
            found = F.when(F.col(c.API_KEY) == key, known.start).otherwise(found)
    return found
