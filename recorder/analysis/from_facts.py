"""How each decoder's rows stand in a capture's facts, so that no frame is opened for them.

A view makes the rows that a decoder would make of the frames: the same rows in the same columns. What stands in several
tables of facts is joined by frame (`FRAME_KEY`).

Two views lack rows that nobody asks for, those of frames that can't be read: the ends of logs, and topics' errors.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from operator import or_

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everybody imports it

from proxy.wire import apis
from proxy.wire.dialects import Dialect
from proxy.wire.kafka07 import RequestType
from recorder.capture import frames as c
from recorder.facts import fetch_sessions, group_joins, group_offsets, log_ends, memberships, software, transactions
from recorder.facts import topic_errors as of_topics
from recorder.facts import topic_partitions as of_partitions
from recorder.facts.batches import BATCHES, read_offsets
from recorder.facts.frame import REQUEST, RESPONSE
from recorder.facts.group_offsets import GROUP_FACTS
from recorder.facts.metadata import METADATA_STATES
from recorder.facts.names import ANSWERED_NAMES
from recorder.facts.rows import SIDE, UNREAD, Decoder, FrameSelector, Read
from recorder.facts.software import OFFERS
from recorder.facts.tables import FRAME_FACTS
from recorder.facts.topic_errors import TOPIC_ERROR_FACTS
from recorder.facts.topic_partitions import PARTITION_FACTS
from recorder.facts.transactions import TRANSACTION_FACTS

# the rows of a table of facts, of the chosen time
FactTable = Callable[[Decoder], DataFrame]
# all rows of a decoder's table, and maybe those of further frames
View = Callable[[FactTable], DataFrame]
FRAME_KEY = [c.SESSION, c.CONNECTION, c.SEQUENCE]


def stands_on_facts(decoder: Decoder) -> bool:
    """True if facts hold the decoder's rows."""
    return decoder.read in _VIEWS


def fact_rows(facts: FactTable, decoder: Decoder) -> DataFrame:
    """The decoder's table, made of facts."""
    return _VIEWS[decoder.read](facts).filter(_selected(decoder.selectors)).select(*_typed(decoder))


def _typed(decoder: Decoder) -> list[Column]:
    return [F.col(column.name).cast(column.kind).alias(column.name) for column in decoder.table.columns]


def _selected(selectors: Sequence[FrameSelector]) -> Column:
    """The frames that a decoder asks for, by the columns that facts have of them."""
    return reduce(or_, map(_selects, selectors))


def _selects(one: FrameSelector) -> Column:
    found = F.col(SIDE) == one.side
    if one.api_keys is not None:
        found &= F.col(c.API).isin(*(_api(one.dialect, key) for key in one.api_keys))
    return found if one.versions is None else found & F.col(c.API_VERSION).isin(*one.versions)


def _api(dialect: str, key: int) -> str | None:
    """An API's name; those of both dialects differ."""
    return apis.api_name(key) if dialect == Dialect.KAFKA else RequestType(key).api


def _of(decoder: Decoder) -> View:
    """The rows of one table of facts."""
    return lambda facts: facts(decoder)


def _partitions(facts: FactTable) -> DataFrame:
    """The partitions that frames name; of a frame with a batch that can't be read, the row that says so alone."""
    found = facts(PARTITION_FACTS)
    unread = found.filter(F.col(UNREAD).isNotNull())
    spoilt = F.broadcast(unread.select(*FRAME_KEY).distinct())
    read = found.filter(F.col(UNREAD).isNull() & ~_is_forgotten())
    return read.join(spoilt, FRAME_KEY, "left_anti").select(*found.columns).unionByName(unread)


def _is_forgotten() -> Column:
    return F.coalesce("is_forgotten", F.lit(False))


def _topic_errors(facts: FactTable) -> DataFrame:
    of_partitions = facts(PARTITION_FACTS).filter(F.col("error_code") != 0)
    found = facts(TOPIC_ERROR_FACTS)
    return found.unionByName(of_partitions.select(*found.columns))


def _log_ends(facts: FactTable) -> DataFrame:
    """What each partition of a frame says of its log's end."""
    is_request, api = F.col(SIDE) == REQUEST, F.col(c.API)
    is_end = (F.col("timestamp_ms") == -1) & (F.coalesce("isolation_level", F.lit(0)) == 0)
    is_asked = is_request & (api == "ListOffsets")
    found = facts(PARTITION_FACTS).filter(F.col("partition").isNotNull() & ~_is_forgotten())
    found = found.filter(is_request | (F.col("error_code") == 0)).filter(~is_asked | is_end)
    is_fetched, is_answer = api == "Fetch", ~is_request
    no_offsets = F.array().cast("array<bigint>")
    first = F.when(api == "Produce", F.col("base_offset")).when(api == "ListOffsets", F.col("offset"))
    return found.withColumns(
        {
            "end_offset": F.when(is_fetched, F.col("high_watermark")),
            "stable_offset": F.when(is_fetched, F.col("last_stable_offset")),
            "first_offset": F.when(is_answer, first),
            "offsets": F.when(is_request & (api == "Produce"), F.col("records")),
            "is_asked": F.when(is_asked, F.lit(True)),
            "control_offsets": F.when(is_fetched, F.coalesce("control_offsets", no_offsets)),
        }
    )


def _fetch_answers(facts: FactTable) -> DataFrame:
    found = facts(FRAME_FACTS)
    own = {"answered_session": F.col("fetch_session"), "answered_error": F.col("fetch_error")}
    return found.withColumns({**own, UNREAD: _unopened()})


def _unopened() -> Column:
    """Why an answer about partitions could not be opened; its codes may be known all the same."""
    return F.when(F.col("partitions").isNull(), F.coalesce("unopened", UNREAD))


def _fetch_requests(facts: FactTable) -> DataFrame:
    """The requests' own rows, and those of their partitions."""
    is_fetch = (F.col(SIDE) == REQUEST) & (F.col(c.API) == "Fetch")
    columns = fetch_sessions.FETCH_REQUESTS.table.columns
    session = ["fetch_session", "fetch_epoch"]
    own = facts(FRAME_FACTS).filter(is_fetch)
    nothing = {one.name: F.lit(None).cast(one.kind) for one in columns if one.name not in own.columns}
    asked = facts(PARTITION_FACTS).filter(is_fetch & F.col("partition").isNotNull())
    placed = asked.join(own.select(*FRAME_KEY, *session), FRAME_KEY)
    names = [column.name for column in columns]
    return own.withColumns(nothing).select(*names).unionByName(placed.select(*names))


def _transaction_answers(facts: FactTable) -> DataFrame:
    """The answers to steps of transactions. Those to Produce have a row in `frames`, and codes in `partitions`."""
    names = transactions.TRANSACTION_ANSWERS.table.names
    told = facts(TRANSACTION_FACTS).withColumns(
        {f"answered_{name}": F.col(name) for name in ("producer_id", "producer_epoch")}
    )
    is_produced = (F.col(SIDE) == RESPONSE) & (F.col(c.API) == "Produce")
    codes = facts(PARTITION_FACTS).filter(is_produced & F.col("partition").isNotNull())
    refused = codes.groupBy(*FRAME_KEY).agg(F.min(F.col("error_code") != 0).alias("_refused"))
    produced = facts(FRAME_FACTS).filter(is_produced).join(refused, FRAME_KEY, "left")
    is_opened = F.col("partitions").isNotNull()
    own = {
        "is_refused": F.when(is_opened, F.coalesce("_refused", F.lit(False))),
        "error_code": F.when(is_opened, F.col("error_code")),
        "answered_producer_id": F.lit(None).cast("bigint"),
        "answered_producer_epoch": F.lit(None).cast("smallint"),
        UNREAD: _unopened(),
    }
    return told.select(*names).unionByName(produced.withColumns(own).select(*names))


# by the function that reads a frame: several decoders have the same one, and ask for different frames
_VIEWS: Mapping[Read, View] = {
    BATCHES.read: _of(BATCHES),
    METADATA_STATES.read: _of(METADATA_STATES),
    ANSWERED_NAMES.read: _of(ANSWERED_NAMES),
    OFFERS.read: _of(OFFERS),
    of_partitions.read: _partitions,
    read_offsets: _of(PARTITION_FACTS),
    of_topics.read: _topic_errors,
    log_ends.read: _log_ends,
    software.read_software: _of(FRAME_FACTS),
    software.read_replica: _of(FRAME_FACTS),
    fetch_sessions.read_size: _of(FRAME_FACTS),
    fetch_sessions.read_request: _fetch_requests,
    fetch_sessions.read_answer: _fetch_answers,
    group_offsets.read: _of(GROUP_FACTS),
    memberships.read: _of(GROUP_FACTS),
    group_joins.read: _of(GROUP_FACTS),
    transactions.read_steps: _of(TRANSACTION_FACTS),
    transactions.read_answers: _transaction_answers,
    transactions.read_markers: _of(TRANSACTION_FACTS),
}
