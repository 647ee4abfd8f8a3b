"""What `analyze` is asked: the columns to group by, the filters, and the exchanges with these columns.

Topics and software are known from bodies alone. An exchange that names several topics counts once for each of them, so
sums by topic exceed the traffic.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import Any, NamedTuple

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everybody imports it

from proxy.schema.addresses import meant
from recorder.analysis import columns as t
from recorder.analysis.bodies import Captured
from recorder.analysis.tables.clients import HOST, software
from recorder.analysis.tables.names import named
from recorder.capture import frames as c
from recorder.facts.topic_partitions import TOPIC_PARTITIONS
from recorder.filters import api_name, as_options

TOPIC, SOFTWARE = "topic", "software"
# Names of `--by`, and their columns.
BY: Mapping[str, str] = {
    "api": c.API,
    "version": c.API_VERSION,
    "client_id": c.CLIENT_ID,
    "software": SOFTWARE,
    "principal": c.PRINCIPAL,
    "node": c.NODE,
    "topic": TOPIC,
}
AUTO = "auto"
# How many existing topics the error message for an unknown topic lists.
_NAMED = 10


class NoMatch(ValueError):
    """A filter matches nothing in the capture, or lacks its column. The message lists what exists."""


class Filters(NamedTuple):
    """Filters. An empty filter passes every row; a row must pass all of them.

    `apis`: key and dialect (None: any dialect). `clients`: client ids, or addresses with or without a port.
    """

    apis: tuple[tuple[int, str | None], ...] = ()
    clients: tuple[str, ...] = ()
    topics: tuple[str, ...] = ()
    since_ns: int | None = None
    until_ns: int | None = None

    def by_api_and_client(self, found: DataFrame) -> DataFrame:
        """Returns the rows that pass the filters by API and client. Needs API_KEY, DIALECT, CLIENT_ID, CLIENT."""
        for condition in (_any(self.apis, _is_api), _any(self.clients, _is_client)):
            found = found if condition is None else found.filter(condition)
        return found

    @property
    def options(self) -> str:
        """The filters as options of a command."""
        return as_options(
            apis=self.apis, client=self.clients, topic=self.topics, since_ns=self.since_ns, until_ns=self.until_ns
        )


NO_FILTERS = Filters()


@dataclass(frozen=True, slots=True)
class Question:
    """What to ask: the columns to group by (`BY`'s values), the window, and the filters.

    The window AUTO is 5 s if the exchanges span less than 10 minutes, and 1 minute otherwise.
    """

    by: tuple[str, ...] = (c.API,)
    window: str | None = None
    only: Filters = NO_FILTERS


def chosen(found: DataFrame, captured: Captured, question: Question) -> DataFrame:
    """Returns the exchanges that pass, with the columns to group by. Errors: NoMatch for an unknown topic."""
    only = question.only
    rows = only.by_api_and_client(found)
    if only.topics or TOPIC in question.by:
        topics = _topics(captured)
        _check(topics, only.topics)
        wanted = topics.filter(F.col(TOPIC).isin(*only.topics)) if only.topics else topics
        if TOPIC in question.by:
            rows = rows.join(wanted, t.KEYS, "inner" if only.topics else "left")
        else:
            rows = rows.join(wanted, t.KEYS, "left_semi")
    return _with_software(rows, captured) if SOFTWARE in question.by else rows


def filtered(found: DataFrame, only: Filters) -> DataFrame:
    """Returns a table's rows that pass the filters. Errors: NoMatch for a filter on a column that the table lacks."""
    given = {"--api": only.apis, "--client": only.clients, "--topic": only.topics}
    needed = {"--api": (c.API,), "--client": (c.CLIENT_ID,), "--topic": (TOPIC,)}
    for option, values in given.items():
        lacking = [name for name in needed[option] if name not in found.columns]
        if values and lacking:
            raise NoMatch(f"{option}: the table has no column {lacking[0]}; it has {', '.join(found.columns)}")
    names = [api_name(key, dialect) for key, dialect in only.apis]
    found = found.filter(F.col(c.API).isin(*names)) if names else found
    found = found.filter(F.col(TOPIC).isin(*only.topics)) if only.topics else found
    address = _address(found)
    clients = _any(only.clients, lambda name: _has_client(name, address))
    return found if clients is None else found.filter(clients)


def _address(found: DataFrame) -> Column:
    """A client's address in a table: with its port, without it and with the colon, or null."""
    if c.CLIENT in found.columns:
        return F.col(c.CLIENT)
    return F.concat(F.col(HOST), F.lit(":")) if HOST in found.columns else F.lit(None).cast("string")


def _topics(captured: Captured) -> DataFrame:
    """Returns the topics that each exchange names; a topic's id if its name is unknown."""
    partitions = named(captured, TOPIC_PARTITIONS).filter(F.col("partition").isNotNull())
    return partitions.select(*t.KEYS, F.coalesce(TOPIC, "topic_id").alias(TOPIC)).distinct()


def _check(topics: DataFrame, wanted: tuple[str, ...]) -> None:
    for one in wanted:
        if topics.filter(F.col(TOPIC) == one).isEmpty():
            known = topics.select(TOPIC).distinct().orderBy(TOPIC).limit(_NAMED).collect()
            there = ", ".join(str(row[0]) for row in known) or "none is named"
            raise NoMatch(f"no frame names the topic {one}; right would be {there}")


def _with_software(rows: DataFrame, captured: Captured) -> DataFrame:
    software_of = software(captured)
    called = F.concat_ws(" ", "software", "software_version")
    of_connection = software_of.select(c.SESSION, c.CONNECTION, called.alias(SOFTWARE))
    return rows.join(F.broadcast(of_connection), [c.SESSION, c.CONNECTION], "left")


def _any(values: tuple[Any, ...], condition: Callable[[Any], Column]) -> Column | None:
    return reduce(or_, map(condition, values)) if values else None


def _is_api(api: tuple[int, str | None]) -> Column:
    key, dialect = api
    named_so = F.col(c.API_KEY) == key
    return named_so if dialect is None else named_so & (F.col(c.DIALECT) == dialect)


def _is_client(name: str) -> Column:
    return _has_client(name, F.col(c.CLIENT))


def _has_client(name: str, address: Column) -> Column:
    """True if the client id or the address (with its port, or with a colon in place of it) is the one that is meant."""
    asked = meant(name)
    is_address = [address.isin(*asked.exact), *map(address.startswith, asked.beginnings)]
    return reduce(or_, is_address, F.col(c.CLIENT_ID) == name)
