"""What a section of the page is: a title, sentences, tables; or the reason why there is nothing."""

from __future__ import annotations

from dataclasses import dataclass, replace

from recorder.analysis.summary.bounds import Section
from recorder.report.listings import Listing, short

NOT_JUDGED = "Not judged"
# Reasons are ours, with names of others in them.
_LONGEST_REASON = 300


@dataclass(frozen=True, slots=True)
class SectionText:
    """A section. `id`: of its plots, and of its place in the page; `lead`: what it says in sentences.

    `nothing`: why there is nothing to show; then it has no tables.
    """

    id: str
    title: str
    lead: tuple[str, ...] = ()
    listings: tuple[Listing, ...] = ()
    nothing: str = ""

    def with_rows(self, most: int) -> SectionText:
        """The section with at most so many rows in each of its tables."""
        return replace(self, listings=tuple(replace(one, rows=one.rows[:most]) for one in self.listings))


def section(id: str, title: str, of: Section, lead: tuple[str, ...], *listings: Listing, nothing: str) -> SectionText:
    """A section; one without rows says `nothing`, or why nobody could tell."""
    if of.not_judged is not None:
        return SectionText(id, title, nothing=f"{NOT_JUDGED}: {short(of.not_judged, _LONGEST_REASON)}.")
    filled = tuple(one for one in listings if one.rows)
    if not filled and not any(lead):
        return SectionText(id, title, nothing=nothing)
    return SectionText(id, title, tuple(one for one in lead if one), filled)
