"""The tables of `kafka-wiretap analyze`: all are computed from the same exchanges, which are computed once."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everybody imports it

from recorder.analysis import columns as t
from recorder.analysis.bodies import Captured
from recorder.analysis.expressions import api
from recorder.analysis.group_and_filter import AUTO, BY, Question, chosen
from recorder.analysis.output import write
from recorder.analysis.questions import losses
from recorder.analysis.questions.coverage import coverage_by_api
from recorder.analysis.questions.errors import errors_by_api
from recorder.analysis.questions.latency import latency_by_api
from recorder.analysis.table_cache import persisted
from recorder.analysis.tables.exchanges import doubtful, exchanges
from recorder.analysis.tables.lag import SECOND_NS, window_ns
from recorder.capture import frames as c
from recorder.filters import Held
from recorder.missing import Gaps, LostOfApi, Missing, only_topics, samples

Rows = list[dict[str, Any]]
BY_API = Question()
# The columns that the questions need; only these are kept in memory.
ASKED = (
    c.API,
    c.API_KEY,
    c.AT,
    t.ANSWERED_AT,
    c.REQUEST_SIZE,
    t.RESPONSE_SIZE,
    c.LATENCY_NS,
    t.WAIT,
    t.OUTCOME,
    t.ERROR_CODES,
    t.UNREAD,
)


@dataclass(frozen=True, slots=True)
class Report:
    """The losses, and the rows of each table. `by`: the columns by which latency and errors are grouped.

    `held`: what the capture holds, if no exchange passed the question's filters.
    """

    missing: Missing
    coverage_by_api: Rows
    latency_by_api: Rows
    errors_by_api: Rows
    by: tuple[str, ...] = (c.API,)
    held: Held | None = None


@dataclass(frozen=True, slots=True)
class Output:
    """The destination of tables: a folder (or URL) with one folder a table, as "parquet", "csv" or "json"."""

    folder: str
    format: str = "parquet"
    overwrite: bool = False


def report(capture: Captured, question: Question = BY_API, *, output: Output | None = None) -> Report:
    """Returns the answers to the question, and what is missing; also writes them to `output`, if given.

    Raises Spark's AnalysisException for a folder without a capture, an existing output or an invalid window;
    `group_and_filter.NoMatch` for an unknown topic.
    """
    by = question.by
    capture = replace(capture, since_ns=question.only.since_ns, until_ns=question.only.until_ns)
    every = chosen(exchanges(capture, doubtful(capture)), capture, question)
    with persisted(every.select(*dict.fromkeys((*ASKED, *by)))) as kept:
        window = _window(kept) if question.window == AUTO else question.window
        tables = {
            "coverage_by_api": coverage_by_api(kept),
            "latency_by_api": latency_by_api(kept, by=by, window=window),
            "errors_by_api": errors_by_api(kept, by=by, window=window),
        }
        rows = {name: _collected(table, name, output) for name, table in tables.items()}
        nothing = None if rows["latency_by_api"] else held(capture)
        return Report(missing(capture.frames, capture.events, output), **rows, by=by, held=nothing)


def held(captured: Captured) -> Held:
    """Returns what the capture holds, whatever time is chosen. Runs a Spark job."""
    first, last, apis = captured.frames.agg(F.min(c.AT_NS), F.max(c.AT_NS), F.collect_set(api())).collect()[0]
    return Held(first, last, tuple(apis))


def _window(exchanges: DataFrame) -> str | None:
    """Returns the window that suits the exchanges' time span, in Spark's notation; None without exchanges."""
    first, last = exchanges.agg(F.min(F.unix_micros(c.AT)), F.max(F.unix_micros(c.AT))).collect()[0]
    return None if first is None else f"{window_ns(first * 1000, last * 1000) // SECOND_NS} seconds"


def missing(frames: DataFrame, event_rows: DataFrame, output: Output | None = None) -> Missing:
    """Returns what the capture lacks: gaps, omitted and cut frames, sessions that died."""
    gaps = _collected(losses.gaps_by_cause(event_rows), "gaps_by_cause", output)
    lost = _collected(losses.lost_by_api(event_rows), "lost_by_api", output) if gaps or output else []
    (sums,) = losses.left_out(frames, event_rows).collect()
    settings = [*map(tuple, losses.settings_told(event_rows).collect())]
    died = sorted(row[c.SESSION] for row in losses.sessions_that_died(event_rows).collect())
    return Missing(
        [Gaps(**row) for row in gaps],
        [LostOfApi(**row) for row in lost],
        sums[c.FRAMES],
        sums["cut_frames"],
        sums["cut_bytes"],
        died,
        without_records=sums["without_records"],
        samples=sorted(samples(settings)),
        only_topics=sorted(only_topics(settings)),
    )


def _ordered(table: DataFrame) -> DataFrame:
    """Returns a table of one partition, sorted for a reader: by window, then the busiest or most frequent first."""
    busiest = next(name for name in (t.REQUESTS, t.COUNT, t.RESPONSES, c.FRAMES) if name in table.columns)
    order = [F.col(name) for name in (t.WINDOW_START,) if name in table.columns]
    order += [
        F.desc(busiest),
        *(F.col(name) for name in (c.CAUSE, *BY.values(), t.ERROR_CODE) if name in table.columns),
    ]
    return table.sortWithinPartitions(*order)


def _collected(table: DataFrame, name: str, output: Output | None) -> Rows:
    """Returns the rows of a small table, and writes them to a single file if there is an output."""
    if output is not None:
        table = _ordered(table.coalesce(1)).persist()
        write(table, f"{output.folder.rstrip('/')}/{name}", output.format, overwrite=output.overwrite)
    return [row.asDict() for row in table.collect()]
