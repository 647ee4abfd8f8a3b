"""A replay's result as one HTML page: the verdict, then counts, latency, lateness, withheld requests, differences.

The page holds the JSON report too, so that `replay show PAGE N` needs no other file.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from markupsafe import Markup

from recorder.replay.durations import PERCENTILES, Durations
from recorder.replay.outcome import Latency, Result, Verdict
from recorder.replay.results import report, words
from recorder.report.figure import Figure
from recorder.report.page import page
from recorder.report.plots import dumbbells as plots
from recorder.terminal import count, duration, moment, percent

# The most rows of a table of foreign names.
MOST_ROWS = 200
_TONES = {Verdict.EQUAL: "good", Verdict.TOLERATED: "warn"}


def html(result: Result, path: str) -> str:
    """The page. `path`: the page's own file, for the commands in it."""
    groups = words.alike(result.mismatches)
    return page(
        "replay.html",
        title=f"Replay: {result.verdict}",
        result=result,
        words=words,
        count=count,
        duration=duration,
        ms=words.milliseconds,
        moment=moment,
        percentiles=PERCENTILES,
        tone=_TONES.get(result.verdict, "bad"),
        figures=[*_figures(result)],
        apis=sorted(result.apis.items(), key=lambda item: (-item[1].recorded, item[0]))[:MOST_ROWS],
        latency=_busiest(result)[:MOST_ROWS],
        latency_plots=latency_plots(result),
        lateness=sorted(result.lateness.items(), key=lambda item: -item[1].most_ns),
        withheld=[*_withheld(result)],
        unanswered=[*result.unanswered()],
        streams=[one for one in result.streams if one.differs or one.unread][:MOST_ROWS],
        before=result.before[:MOST_ROWS],
        groups=groups,
        commands=[words.command(result, group.number, path) for group in groups],
        script=Markup(f"{report.OPENING}{report.as_script(result)}{report.CLOSING}"),
    )


def _figures(result: Result) -> Iterator[Figure]:
    totals, streams = result.totals, result.streams
    differ, unlike = totals.mismatches.total(), sum(1 for _ in result.differing_streams())
    yield Figure("sent", count(totals.sent), f"of {count(totals.recorded)} recorded")
    others = ((totals.lost, "lost"), (totals.uncompared, "not compared"))
    beside = ", ".join(f"{count(number)} {what}" for number, what in others if number)
    yield Figure("answered", count(totals.answered), beside, _bad(totals.lost))
    yield Figure("answers differ", count(differ), words.kinds(result), _bad(differ))
    withheld = totals.withheld.total()
    unplayable = result.withheld_percent
    beside = percent(unplayable) if unplayable else "by design" if withheld else ""
    yield Figure("withheld", count(withheld), beside, "warn" if unplayable else "")
    if any(result.refused):
        beside = f"and {count(result.refused.parts, 'part')} of others" if result.refused.parts else "as recorded"
        yield Figure("refused in the recording", count(result.refused.requests), beside)
    if streams:
        equal = sum(one.equal for one in streams)
        beside = f"{count(unlike)} of {count(len(streams), 'stream')} differ" if unlike else "in all streams"
        yield Figure("records equal", count(equal), beside, _bad(unlike))
    if result.late.most_ns:
        beside = f"most {duration(result.late.most_ns)}"
        yield Figure("late at p99", duration(result.late.quantile(0.99)), beside)


def _bad(number: int) -> str:
    return "bad" if number else "good"


def _busiest(result: Result) -> list[tuple[str, Latency]]:
    """The latencies by API, the one with most answers first; answers that wait on purpose come last."""
    return sorted(result.latency.items(), key=lambda item: (item[1].is_apart, -item[1].replayed.count, item[0]))


def latency_plots(result: Result) -> list[Markup]:
    """A drawing for each percentile. Answers that wait on purpose (`is_apart`) are left out."""
    rows = [(label, both) for label, both in _busiest(result) if not both.is_apart][: plots.MOST_ROWS]
    return plots.drawings({name: _pairs(rows, share) for name, share in PERCENTILES}, "recorded and replayed")


def _pairs(rows: list[tuple[str, Latency]], share: float) -> list[plots.Pair]:
    return [plots.Pair(label, _at(share, both.recorded), _at(share, both.replayed)) for label, both in rows]


def _at(share: float, found: Durations) -> float:
    return (found.quantile(share) or 0) / 1e6


def _withheld(result: Result) -> Iterator[tuple[str, int, int, str]]:
    """(reason, requests, parts of requests, APIs) of withheld requests."""
    totals = result.totals
    for reason, _ in (totals.withheld + totals.partitions).most_common(MOST_ROWS):
        apis = Counter({api: counts.withheld[reason] for api, counts in result.apis.items() if counts.withheld[reason]})
        yield reason, totals.withheld[reason], totals.partitions[reason], words.by_api(apis)
