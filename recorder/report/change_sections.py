"""Two captures side by side in words and tables: for the page, for Markdown, and for a terminal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from recorder.analysis.change.facts import CaptureFacts
from recorder.analysis.change.judged import ENOUGH, LEAST_MS, Cases, Change
from recorder.analysis.change.pairs import shares
from recorder.analysis.change.rows import FindingChange, LatencyChange
from recorder.analysis.change.whole import Changes, Verdict
from recorder.analysis.summary.bounds import Table
from recorder.analysis.summary.sections.findings import Finding
from recorder.analysis.summary.words import measure
from recorder.report.listings import (
    Listing,
    ListingColumn,
    Words,
    bytes_of,
    listing,
    name,
    number,
    share,
    short,
    time_of,
)
from recorder.report.section import SectionText
from recorder.report.sections.coverage import lacking
from recorder.report.sections.latency import label_of
from recorder.terminal import count, duration, moment, percent, size

# the most names of software and versions that a cell has room for
_MOST_NAMED = 5
_TONES = {
    Change.WORSE: "bad",
    Change.NEW: "bad",
    Change.MIXED: "warn",
    Change.BETTER: "good",
    Change.GONE: "good",
}
# values of too few answers to be compared are there, but decide nothing
_FEW = "muted"
_OF_PERCENTILES = {**_TONES, Change.UNKNOWN: _FEW}
TONES = {Verdict.BETTER: "good", Verdict.WORSE: "bad", Verdict.NO_DIFFERENCE: ""}
_NO_SOFTWARE = "not told"


class _Side(NamedTuple):
    """A row of the table of both captures."""

    what: str
    before: str
    after: str


def sections(found: Changes) -> list[SectionText]:
    """All sections below the verdict."""
    every = (
        _captures,
        _findings,
        _latency,
        _deliveries,
        _errors,
        _traffic,
        _topics,
        _groups,
        _nodes,
        _versions,
        _clients,
    )
    return [make(found) for make in every]


def verdict(found: Changes) -> str:
    """The verdict in a few words."""
    return found.verdict.value.capitalize()


def lead(found: Changes) -> str:
    """A sentence with the numbers of better and worse rows."""
    if found.verdict is Verdict.NOT_COMPARED:
        return "A capture without frames can't be compared."
    if found.verdict is Verdict.TOO_LITTLE:
        return "No rule found anything, and neither latency nor errors have enough exchanges on both sides."
    errors = [row for row in found.errors if not row.is_flow]
    parts = (
        counted(found.findings, "findings", {Change.NEW: "new", Change.WORSE: "worse", Change.BETTER: "better"}),
        counted(found.latency, "APIs", {Change.WORSE: "slower", Change.BETTER: "faster"}),
        counted(found.deliveries, "deliveries", {Change.WORSE: "slower", Change.BETTER: "faster"}),
        counted(errors, "errors", {Change.NEW: "new", Change.WORSE: "more frequent", Change.BETTER: "rarer"}),
    )
    said = "; ".join(one for one in parts if one)
    same = f"Nothing differs by more than {percent(100 * found.tolerance)}, or than by chance."
    return f"{said[0].upper()}{said[1:]}." if said else same


def counted(rows: Iterable[Any], of: str, words: dict[Change, str]) -> str:
    """The numbers of changed rows by change: "findings: 2 gone, 1 new"; "" if none changed."""
    counts = Counter(row.change for row in rows)
    said = {**words, Change.GONE: "gone", Change.MIXED: "better and worse"}
    parts = [f"{count(counts[change])} {word}" for change, word in said.items() if counts[change]]
    return f"{of}: {', '.join(parts)}" if parts else ""


def _change(tones: dict[Change, str] = _TONES) -> ListingColumn:
    return ListingColumn(
        "change", lambda row: row.change.value, str, is_fixed=True, tone=lambda row: tones.get(row.change, "")
    )


def _captures(found: Changes) -> SectionText:
    """The section of the two captures: the time, duration and amount of each."""
    rows = Table(tuple(_Side(what, tell(found.before), tell(found.after)) for what, tell in _OF_SIDES.items()))
    lacks = [
        f"{which}: {lacking(side.missing)}"
        for which, side in (("Before", found.before), ("After", found.after))
        if side.missing
    ]
    columns = (
        name("", lambda row: row.what, is_fixed=True),
        name("before", lambda row: row.before, is_name=True),
        name("after", lambda row: row.after, is_name=True),
    )
    side_by_side = listing("Side by side", columns, rows, is_small=True)
    return SectionText("captures", "The two captures", (*lacks, ignored(found.tolerance)), (side_by_side,))


def ignored(tolerance: float) -> str:
    """The sentence on differences that count as none."""
    return (
        f"Differences of up to {percent(100 * tolerance)} are ignored (--tolerance). So are latencies that differ by "
        f"up to {LEAST_MS:g} ms (threads wake up that late), and shares of errors that differ by chance."
    )


def _rate(number: float, seconds: float, words: Callable[[float], str]) -> str:
    return f", {words(number / seconds)} a second" if seconds else ""


_OF_SIDES: dict[str, Callable[[CaptureFacts], str]] = {
    "capture": lambda side: side.capture,
    "recorded from": lambda side: moment(side.first_at_ns) if side.first_at_ns is not None else "",
    "for": lambda side: duration(side.recorded_ns),
    "exchanges": lambda side: count(side.exchanges) + _rate(side.exchanges, side.seconds, digits),
    "bytes": lambda side: size(side.bytes) + _rate(side.bytes, side.seconds, size),
    "missing": lambda side: "not complete" if side.missing else "nothing",
    "client ids": lambda side: count(len({one.client_id for one in side.clients})),
    "findings": lambda side: count(side.findings.found.total),
}


def digits(value: float) -> str:
    """A rate, rounded to two digits below 99.5, otherwise to an integer."""
    return count(round(value)) if value >= 99.5 else f"{value:.2g}"


def _section(id: str, title: str, lead: tuple[str, ...], *listings: Listing, nothing: str) -> SectionText:
    filled = tuple(one for one in listings if one.rows)
    return SectionText(id, title, lead, filled) if filled else SectionText(id, title, nothing=nothing)


def _summed(rows: Iterable[Any], of: str) -> str:
    """A sentence with the number of rows of each change; "" without rows."""
    counts = Counter(row.change for row in rows)
    parts = [f"{count(counts[change])} {change.value}" for change in Change if counts[change]]
    return f"{of}: {', '.join(parts)}." if parts else ""


def _findings(found: Changes) -> SectionText:
    columns = (
        _change(),
        name("rule", lambda row: row.rule, is_fixed=True),
        name("about", lambda row: row.subject, is_name=True),
        name("before", lambda row: _measure(row.before)),
        name("after", lambda row: _measure(row.after)),
        name("why nobody can tell", lambda row: row.why, is_spare=True),
    )
    return _section(
        "findings",
        "Findings",
        (_summed(found.findings, "By rule and subject"),),
        listing("Findings that came, went or stayed", columns, found.findings, is_small=True),
        nothing="No rule fired, before or after.",
    )


def _measure(one: Finding | None) -> str:
    if one is None:
        return ""
    return measure(one.measure, one.unit) if one.measure is not None else "found"


def news(found: Changes) -> list[FindingChange]:
    """The findings that are new or became worse; they are shown in full, with what they cause."""
    rows = [row for row in found.findings if row.change in (Change.NEW, Change.WORSE)]
    caused = {(one.rule, one.subject) for row in rows for one in row.shown.consequences}
    return [row for row in rows if (row.rule, row.subject) not in caused]


def _sides(
    column: Callable[..., ListingColumn], label: str, field: str, *words: Words, is_spare: bool = False
) -> tuple[ListingColumn, ListingColumn]:
    """The columns of a figure, before and after; nothing for a side that lacks the row's subject."""
    return (
        column(f"{label} before", lambda row: getattr(row.before, field, None), *words, is_spare=is_spare),
        column(f"{label} after", lambda row: getattr(row.after, field, None), *words, is_spare=is_spare),
    )


def _percentile(label: str, field: str) -> tuple[ListingColumn, ListingColumn]:
    """The columns of a percentile, before and after; the latter has the tone of its change. A phone omits the p99."""
    return (
        time_of(
            f"{label} before",
            lambda row: getattr(row.before, field, None),
            is_spare=field == "p99_ms",
            tone=lambda row: _FEW if row.percentiles.get(field, Change.UNKNOWN) is Change.UNKNOWN else "",
        ),
        time_of(
            f"{label} after",
            lambda row: getattr(row.after, field, None),
            is_spare=field == "p99_ms",
            tone=lambda row: _OF_PERCENTILES.get(row.percentiles.get(field, Change.UNKNOWN), ""),
        ),
    )


_LATENCY = (
    _change(),
    name("API", lambda row: row.api, is_name=True),
    *_percentile("p50", "p50_ms"),
    *_percentile("p95", "p95_ms"),
    *_percentile("p99", "p99_ms"),
    *_sides(number, "answers", "responses", is_spare=True),
)
_OF_WAITS = (
    _LATENCY[0],
    name("API", label_of, is_name=True),
    *_LATENCY[2:],
)


def _latency(found: Changes) -> SectionText:
    least = ", ".join(f"{name.removesuffix('_ms')} from {count(number)}" for name, number in ENOUGH.items())
    return _section(
        "latency",
        "Latency",
        (
            "From the last byte of the request to the first byte of its response.",
            f"Percentiles are compared where both captures have enough answers: {least} on.",
            _summed(found.latency, "APIs"),
        ),
        listing("Work, by API", _LATENCY, found.latency, is_small=True),
        listing("Long polls that may have waited: their time is no work", _OF_WAITS, found.waits, is_small=True),
        nothing="No request was answered, before or after.",
    )


def compared(found: Changes, field: str) -> list[tuple[LatencyChange, float, float]]:
    """(row, before, after) of a percentile, where both captures have enough answers; the most answers first."""
    rows = [row for row in found.latency if row.percentiles.get(field, Change.UNKNOWN) is not Change.UNKNOWN]
    both = [(row, getattr(row.before, field), getattr(row.after, field)) for row in rows]
    return sorted(both, key=lambda one: -(one[0].after.responses if one[0].after else 0))


def _errors(found: Changes) -> SectionText:
    columns = (
        ListingColumn("change", lambda row: row.change.value, str, is_fixed=True, tone=_error_tone),
        name("API", lambda row: row.api, is_name=True),
        name("error", lambda row: f"{row.error} (normal)" if row.is_flow else row.error, is_name=True),
        number("share before", lambda row: _share(row.before), share),
        number("share after", lambda row: _share(row.after), share),
        number("before", lambda row: row.before.cases),
        number("after", lambda row: row.after.cases),
        number("of before", lambda row: row.before.of, is_spare=True),
        number("of after", lambda row: row.after.of, is_spare=True),
    )
    real = [row for row in found.errors if not row.is_flow]
    return _section(
        "errors",
        "Errors",
        (_OF_ERRORS, _summed(real, "Errors")),
        listing("By API", columns, found.errors, is_small=True),
        nothing="No answer holds an error, before or after.",
    )


_OF_ERRORS = (
    "Answers with an error, as a share of all that could be read; requests without an answer, as one of all requests."
)


def _error_tone(row: Any) -> str:
    return "" if row.is_flow else _TONES.get(row.change, "")


def _share(one: Cases) -> float | None:
    return one.share if one.of else None


def _traffic(found: Changes) -> SectionText:
    columns = (
        _change(tones={}),
        name("API", lambda row: row.api, is_name=True),
        *_sides(number, "requests/s", "requests_a_second", digits),
        ListingColumn("of bytes", lambda row: row.bytes_change.value, str, is_fixed=True, is_spare=True),
        *_sides(bytes_of, "bytes/s", "bytes_a_second"),
        *_sides(number, "requests", "requests", is_spare=True),
    )
    parts = (
        _bytes(found),
        "More and less are by the second, and neither is better. Bytes are those of both directions.",
    )
    return _section(
        "traffic",
        "Traffic",
        parts,
        listing("By API", columns, found.traffic, is_small=True),
        nothing="No exchange was recorded, before or after.",
    )


def _bytes(found: Changes) -> str:
    sides = [_of_exchange(side) for side in (found.before, found.after)]
    return f"An exchange has {sides[0]} before and {sides[1]} after, on average." if all(sides) else ""


def _of_exchange(side: CaptureFacts) -> str:
    return size(side.bytes / side.exchanges) if side.exchanges else ""


def _both(label: str, value: Callable[[Any], str], *, is_spare: bool = False) -> tuple[ListingColumn, ListingColumn]:
    """The columns of a value, before and after; empty for a side that lacks the row's subject."""
    return (
        name(f"{label} before", lambda row: value(row.before) if row.before else "", is_spare=is_spare),
        name(f"{label} after", lambda row: value(row.after) if row.after else "", is_spare=is_spare),
    )


def _deliveries(found: Changes) -> SectionText:
    columns = (
        _change(),
        name("topic", lambda row: row.topic, is_name=True),
        *_percentile("p50", "p50_ms"),
        *_percentile("p95", "p95_ms"),
        *_percentile("p99", "p99_ms"),
        *_sides(number, "batches", "batches", is_spare=True),
    )
    return _section(
        "delivery",
        "Delivery",
        ("From a batch's Produce request to the first answer with it.", _summed(found.deliveries, "Topics")),
        listing("By topic", columns, found.deliveries, is_small=True),
        nothing="No batch was both produced and consumed, before or after.",
    )


def _topics(found: Changes) -> SectionText:
    columns = (
        _change(tones={}),
        name("topic", lambda row: row.topic, is_name=True),
        *_both("acks", lambda side: _of_shares(shares(side.acks))),
        *_both("idempotent", lambda side: percent(100 * side.idempotent / side.batches) if side.batches else ""),
        *_both("codec", lambda side: _of_shares(shares(side.codecs))),
        *_both("records a batch", lambda side: "" if side.records_a_batch is None else digits(side.records_a_batch)),
        *_sides(number, "batches", "batches", is_spare=True),
    )
    return _section(
        "topics",
        "Topics",
        ("How producers write: acks -1 are those of all in-sync replicas.", _summed(found.topics, "Topics")),
        listing("By topic", columns, found.topics, is_small=True),
        nothing="No batch was produced, before or after.",
    )


def _of_shares(parts: dict[str, float]) -> str:
    """Values in words, the most used first, each with its share if there are several."""
    first = sorted(parts.items(), key=lambda one: (-one[1], one[0]))
    if len(first) == 1:
        return first[0][0]
    return ", ".join(f"{value} {percent(100 * part)}" for value, part in first[:_MOST_NAMED])


def _groups(found: Changes) -> SectionText:
    columns = (
        _change(tones={}),
        name("group", lambda row: row.group, is_name=True),
        *_both("members", lambda side: _known(side.members)),
        *_both("rebalances", lambda side: _known(side.rebalances)),
        *_both("largest lag", lambda side: _known(side.most_lag)),
        *_both("last lag", lambda side: _known(side.last_lag), is_spare=True),
    )
    return _section(
        "groups",
        "Groups",
        ("Lag is in records. Rebalances are compared by the second.", _summed(found.groups, "Groups")),
        listing("By group", columns, found.groups, is_small=True),
        nothing="No group was seen, before or after.",
    )


def _known(value: int | None) -> str:
    return "" if value is None else count(value)


def _nodes(found: Changes) -> SectionText:
    columns = (
        _change(tones={}),
        name("node", lambda row: str(row.node), is_fixed=True),
        *_both("leads partitions", lambda side: count(side.partitions)),
        number("share of bytes before", lambda row: row.share_before, share),
        number("share of bytes after", lambda row: row.share_after, share),
        *_both("written", lambda side: size(side.written_bytes), is_spare=True),
        *_both("read", lambda side: size(side.read_bytes), is_spare=True),
    )
    return _section(
        "nodes",
        "Nodes",
        ("The load of each node: partitions with traffic that it leads, and bytes.", _summed(found.nodes, "Nodes")),
        listing("By node", columns, found.nodes, is_small=True),
        nothing="No node led a partition with traffic, before or after.",
    )


def _versions(found: Changes) -> SectionText:
    columns = (
        _change(tones={}),
        name("API", lambda row: row.api, is_name=True),
        name("before", lambda row: _of_versions(row.before)),
        name("after", lambda row: _of_versions(row.after)),
    )
    rows = found.versions
    return _section(
        "versions",
        "Versions",
        (_summed(rows, "APIs by the versions of their requests"),),
        listing("By API", columns, rows, is_small=True),
        nothing="No version was seen, before or after.",
    )


def _of_versions(shares: dict[int, float]) -> str:
    """Versions in words, the most used first, each with its share if there are several."""
    first = sorted(shares.items(), key=lambda one: (-one[1], -one[0]))
    if len(first) == 1:
        return f"v{first[0][0]}"
    return ", ".join(f"v{version} {percent(100 * part)}" for version, part in first[:_MOST_NAMED])


def _clients(found: Changes) -> SectionText:
    columns = (
        _change(tones={}),
        name("client id", lambda row: row.client_id or "none", is_name=True),
        name("software before", lambda row: _software(row.before)),
        name("software after", lambda row: _software(row.after)),
        number("requests before", lambda row: row.requests_before or None, is_spare=True),
        number("requests after", lambda row: row.requests_after or None, is_spare=True),
    )
    return _section(
        "clients",
        "Clients",
        (_summed(found.clients, "Client ids (a star stands for a number at the end)"),),
        listing("By client id", columns, found.clients, is_small=True),
        nothing="No client was seen, before or after.",
    )


def _software(names: tuple[str, ...]) -> str:
    more = f" and {count(len(names) - _MOST_NAMED)} more" if len(names) > _MOST_NAMED else ""
    return ", ".join(short(one) or _NO_SOFTWARE for one in names[:_MOST_NAMED]) + more


def changed(of: SectionText) -> Iterator[Listing]:
    """A section's tables without unchanged rows."""
    for one in of.listings:
        rows = [row for row in one.rows if getattr(row, "change", Change.NEW) is not Change.UNCHANGED]
        if rows:
            yield Listing(one.title, one.columns, rows, len(rows) + one.total - len(one.rows), one.note, one.is_small)
