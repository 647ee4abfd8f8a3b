"""Findings with one cause are one finding: the cause, with its consequences under it.

CAUSES is the relation. A finding is the consequence of another one if a row of CAUSES names both rules, their times
overlap, and the cause explains all clients (or nodes) that the consequence is about. A cause takes the severity of its
worst consequence. The consequence's advice would be wrong, so it has none.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum

from recorder.analysis.summary.sections.findings import Finding


class Joined(Enum):
    """What a cause and its consequence share, beside their time. The value is the finding's field."""

    BY_CLIENT = "clients"
    BY_NODE = "nodes"
    BY_TIME = ""


@dataclass(frozen=True, slots=True)
class Cause:
    """A row: the rule that finds the cause, and those that find its consequences."""

    rule: str
    by: Joined
    consequences: tuple[str, ...]


# errors, and all that a client does which gets nothing but errors, or no answer
_FAILS = ("always_fails", "unanswered", "errors", "retriable_errors", "churn", "metadata_storm")
# The first row that fits wins. A rule's own name: the worst finding of the rule is the cause of the others.
CAUSES = (
    Cause("cut_off", Joined.BY_CLIENT, ("unoffered_version", *_FAILS)),
    Cause("unoffered_version", Joined.BY_CLIENT, _FAILS),
    Cause("login_breaks", Joined.BY_CLIENT, _FAILS),
    Cause("denied", Joined.BY_CLIENT, _FAILS),
    Cause("unknown_topic", Joined.BY_CLIENT, _FAILS),
    Cause("coordinator_moves", Joined.BY_CLIENT, _FAILS),
    Cause("always_fails", Joined.BY_CLIENT, _FAILS),
    Cause("unexpected_responses", Joined.BY_NODE, ("unanswered",)),
    Cause("bad_crc", Joined.BY_CLIENT, ("errors", "retriable_errors")),
    Cause("sequence_gaps", Joined.BY_CLIENT, ("errors", "retriable_errors")),
    Cause("fenced", Joined.BY_CLIENT, ("errors", "always_fails")),
    Cause("stale_commit", Joined.BY_CLIENT, ("errors", "retriable_errors")),
    Cause("stale_leader", Joined.BY_CLIENT, ("retriable_errors", "metadata_storm", "always_fails")),
    Cause("short_lived_producers", Joined.BY_CLIENT, ("churn", "small_batches")),
    # a machine that is busy delays all that it answers
    Cause("slow", Joined.BY_TIME, ("slow",)),
    Cause("slow", Joined.BY_NODE, ("unanswered",)),
)


def under_causes(found: Sequence[Finding]) -> list[Finding]:
    """The findings, the worst first, without those that others cause; these stand under their causes."""
    parents: dict[int, int] = {}
    for row in CAUSES:
        for at, one in enumerate(found):
            if one.rule in row.consequences and at not in parents:
                cause = _cause(row, at, found, parents)
                if cause is not None:
                    parents[at] = cause
    roots = {at: _root(at, parents) for at in range(len(found))}
    return [
        _with(one, [found[other] for other, root in roots.items() if root == at != other])
        for at, one in enumerate(found)
        if at not in parents
    ]


def _cause(row: Cause, at: int, found: Sequence[Finding], parents: dict[int, int]) -> int | None:
    """The place of the finding that causes the one at this place."""
    one = found[at]
    # of two findings of one rule, only the worse can be the cause; no finding is its own consequence's
    others = [
        other
        for other, cause in enumerate(found)
        if cause.rule == row.rule
        and _root(other, parents) != at
        and (row.rule != one.rule or (other < at and other not in parents))
        and _overlap(cause, one)
    ]
    return next(_explain(row.by, one, [(other, found[other]) for other in others]), None)


def _explain(by: Joined, one: Finding, causes: Iterable[tuple[int, Finding]]) -> Iterator[int]:
    """The places of the causes that explain the finding together: all its clients, or nodes, are theirs."""
    if by is Joined.BY_TIME:
        yield from (at for at, _ in causes)
        return
    concerned = {*getattr(one, by.value)}
    sharing = [(at, {*getattr(cause, by.value)} & concerned) for at, cause in causes]
    explained = set().union(*(shared for _, shared in sharing))
    if concerned and concerned <= explained:
        yield from (at for at, shared in sharing if shared)


def _overlap(cause: Finding, one: Finding) -> bool:
    """True if the times of both overlap; a time that is unknown may be any."""
    bounds = (cause.from_ns, cause.to_ns, one.from_ns, one.to_ns)
    if any(bound is None for bound in bounds):
        return True
    begun, ended, from_ns, to_ns = (bound or 0 for bound in bounds)
    return begun <= to_ns and from_ns <= ended


def _root(at: int, parents: dict[int, int]) -> int:
    while at in parents:
        at = parents[at]
    return at


def _with(cause: Finding, consequences: Sequence[Finding]) -> Finding:
    """The cause, with these findings under it."""
    if not consequences:
        return cause
    worst = min((cause, *consequences), key=lambda one: one.severity.rank).severity
    return replace(cause, severity=worst, consequences=tuple(replace(one, advice="") for one in consequences))
