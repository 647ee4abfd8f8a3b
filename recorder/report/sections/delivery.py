"""The section on delivery, from producer to consumer: words, a table, a plot."""

from __future__ import annotations

from collections.abc import Iterator

from recorder.analysis.summary.whole import Summary
from recorder.report.listings import (
    listing,
    milliseconds,
    name,
    number,
    time_of,
)
from recorder.report.plots.log_axis import stepped
from recorder.report.plots.shapes import HUES, MUTED, Key, Lines, Plot, plot
from recorder.report.section import SectionText, section
from recorder.report.sections.latency import PERCENTILES
from recorder.report.series import percentile_lines


def delivery(summary: Summary) -> SectionText:
    """The section of delivery: the time of records from producer to consumer."""
    found = summary.delivery
    lead = "From the Produce request to the first Fetch response with the batch, both by one clock: the proxy's."
    return section(
        "delivery",
        "Delivery",
        found,
        (lead,) if found.topics.rows else (),
        listing("By topic", _DELIVERY, found.topics),
        nothing="No batch was seen both on its way to a broker and on its way to a consumer.",
        plots=_plots(summary),
    )


_OF_AGE = "Age: from the records' own timestamp, by the producer's clock."
_DELIVERY = (
    name("topic", lambda row: row.topic, is_name=True),
    number("batches", lambda row: row.batches),
    *PERCENTILES,
    time_of("age p50", lambda row: row.age_p50_ms, is_spare=True, note=_OF_AGE),
)


def _plots(summary: Summary) -> Iterator[Plot]:
    found = summary.delivery
    values = [value for one in (found.usual_ms, found.slow_ms) for value in one.known if value > 0]
    if not values:
        return
    usual = sorted(found.usual_ms.known or [0])
    answer = f"Half of the batches usually arrive within {milliseconds(usual[len(usual) // 2])}"
    answer += f"; p99 was up to {milliseconds(max(found.slow_ms.known))}." if found.slow_ms.known else "."
    lines = Lines(summary.timeline, 160, percentile_lines(found.usual_ms, found.slow_ms), "ms", stepped(values))
    yield plot("How long did records take to a consumer?", answer, lines, (Key("p50", MUTED), Key("p99", HUES[0])))
