"""A section of the page: a title, sentences, plots and tables, or the reason why there is nothing to show."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from recorder.analysis.summary.bounds import Section
from recorder.report.listings import Listing, short
from recorder.report.plots.shapes import Plot

NOT_JUDGED = "Not judged"
# Reasons are ours, but hold foreign names.
_LONGEST_REASON = 300


@dataclass(frozen=True, slots=True)
class SectionText:
    """A section. `id`: its anchor in the page. `lead`: its sentences.

    `nothing`: the reason why there is nothing to tell; otherwise "". A section with a reason has no tables.
    """

    id: str
    title: str
    lead: tuple[str, ...] = ()
    listings: tuple[Listing, ...] = ()
    nothing: str = ""
    plots: tuple[Plot, ...] = ()

    def with_rows(self, most: int) -> SectionText:
        """The section with at most `most` rows in each of its tables."""
        return replace(self, listings=tuple(replace(one, rows=one.rows[:most]) for one in self.listings))


def section(
    id: str,
    title: str,
    of: Section,
    lead: tuple[str, ...],
    *listings: Listing,
    nothing: str,
    plots: Iterable[Plot] = (),
) -> SectionText:
    """A section. Without sentences and rows it has the reason `nothing`, or the reason why `of` was not judged."""
    if of.not_judged is not None:
        return SectionText(id, title, nothing=f"{NOT_JUDGED}: {short(of.not_judged, _LONGEST_REASON)}.")
    filled = tuple(one for one in listings if one.rows)
    said = tuple(one for one in lead if one)
    return SectionText(id, title, said, filled, "" if filled or said else nothing, tuple(plots))
