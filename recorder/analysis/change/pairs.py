"""Compares two sides: one function a table. Rows that became worse come first, then new ones, then better ones."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeVar

from recorder.analysis.change.facts import ApiFacts, CaptureFacts, ErrorFacts, TopicFacts
from recorder.analysis.change.judged import (
    ENOUGH,
    LEAST_MS,
    Cases,
    Change,
    less_is_better,
    neutral,
    of_shares,
    together,
)
from recorder.analysis.change.rows import (
    ClientChange,
    DeliveryChange,
    ErrorChange,
    FindingChange,
    GroupChange,
    LatencyChange,
    Load,
    NodeChange,
    TopicChange,
    TrafficChange,
    VersionChange,
)
from recorder.analysis.summary.bounds import Bounded
from recorder.analysis.summary.sections.findings import MAX_SUBJECTS, Finding, Findings, Unit
from recorder.analysis.summary.sections.partitions import LoadOfNode

# The name of an unanswered request among the errors.
UNANSWERED = "no answer"
# Measures that do not grow with the capture's length.
_COMPARABLE = (Unit.MS, Unit.SHARE, Unit.PER_SECOND, Unit.RATIO)
Key = TypeVar("Key")
Side = TypeVar("Side")


def _beside(before: Mapping[Key, Side], after: Mapping[Key, Side]) -> Iterator[tuple[Key, Side | None, Side | None]]:
    """Yields every key with the values of both sides; None for a side that lacks the key."""
    for key in {**before, **after}:
        yield key, before.get(key), after.get(key)


def latency(before: CaptureFacts, after: CaptureFacts, tolerance: float) -> list[LatencyChange]:
    """Compares latency by API, work and waits apart; a longer wait is not worse."""
    sides = [{(one.api, one.wait): one for one in side.apis if one.responses} for side in (before, after)]
    rows = [_latency(*key, old, new, tolerance) for key, old, new in _beside(*sides)]
    return _ordered(rows, lambda row: _most(row.before, row.after, lambda side: side.responses))


def _latency(
    api: str, wait: str | None, before: ApiFacts | None, after: ApiFacts | None, tolerance: float
) -> LatencyChange:
    if before is None or after is None:
        return LatencyChange(api, wait, before, after, Change.UNKNOWN)
    judge = less_is_better if wait is None else neutral
    found = _percentiles(before, after, min(before.responses, after.responses), judge, tolerance)
    return LatencyChange(api, wait, before, after, together(found.values()), found)


def _percentiles(
    before: Any, after: Any, cases: int, judge: Callable[[float, float, float, float], Change], tolerance: float
) -> dict[str, Change]:
    """Compares the percentiles of ENOUGH, each if both sides have enough cases."""
    found = {}
    for name, enough in ENOUGH.items():
        both = getattr(before, name), getattr(after, name)
        is_enough = cases >= enough and None not in both
        found[name] = judge(*both, tolerance, LEAST_MS) if is_enough else Change.UNKNOWN
    return found


def traffic(before: CaptureFacts, after: CaptureFacts, tolerance: float) -> list[TrafficChange]:
    """Requests and bytes by API."""
    rows = [_traffic(*both, tolerance) for both in _beside(_loads(before), _loads(after))]
    return _ordered(rows, lambda row: _most(row.before, row.after, lambda side: side.bytes))


def _loads(side: CaptureFacts) -> dict[str, Load]:
    requests, sizes = Counter[str](), Counter[str]()
    for one in side.apis:
        requests[one.api] += one.requests
        sizes[one.api] += one.request_bytes + one.response_bytes
    return {api: load(number, sizes[api], side.seconds) for api, number in requests.items()}


def load(requests: int, size: int, seconds: float) -> Load:
    """Returns a load. Its rates are None for a capture that spans no time."""
    return Load(requests, size, requests / seconds if seconds else None, size / seconds if seconds else None)


def _traffic(api: str, before: Load | None, after: Load | None, tolerance: float) -> TrafficChange:
    if before is None or after is None:
        change = Change.NEW if before is None else Change.GONE
        return TrafficChange(api, before, after, change, change)
    changes = (
        _rate(getattr(before, name), getattr(after, name), tolerance)
        for name in ("requests_a_second", "bytes_a_second")
    )
    return TrafficChange(api, before, after, *changes)


def _rate(before: float | None, after: float | None, tolerance: float) -> Change:
    return Change.UNKNOWN if before is None or after is None else neutral(before, after, tolerance)


def errors(before: CaptureFacts, after: CaptureFacts, tolerance: float) -> list[ErrorChange]:
    """Compares errors by API and code, and unanswered requests. Codes of the normal flow are neither good nor bad."""
    sides = [{(one.api, one.error, one.is_flow): one for one in side.errors} for side in (before, after)]
    rows = []
    for (api, error, is_flow), old, new in _beside(*sides):
        cases = _of_answers(old, before.read.get(api, 0)), _of_answers(new, after.read.get(api, 0))
        rows.append(ErrorChange(api, error, is_flow, *cases, _error(is_flow, *cases, tolerance)))
    rows += _unanswered(before, after, tolerance)
    return _ordered(rows, lambda row: max(row.before.cases, row.after.cases))


def _of_answers(found: ErrorFacts | None, read: int) -> Cases:
    return Cases(found.answers if found else 0, read)


def _error(is_flow: bool, before: Cases, after: Cases, tolerance: float) -> Change:
    change = of_shares(before, after, tolerance)
    if not is_flow:
        return change
    return {Change.WORSE: Change.MORE, Change.BETTER: Change.LESS}.get(change, change)


def _unanswered(before: CaptureFacts, after: CaptureFacts, tolerance: float) -> list[ErrorChange]:
    rows = []
    for api, old, new in _beside(_answered(before), _answered(after)):
        cases = old or Cases(), new or Cases()
        if any(one.cases for one in cases):
            rows.append(ErrorChange(api, UNANSWERED, False, *cases, of_shares(*cases, tolerance)))
    return rows


def _answered(side: CaptureFacts) -> dict[str, Cases]:
    """Returns the unanswered requests among all requests, by API."""
    cases, of = Counter[str](), Counter[str]()
    for one in side.apis:
        cases[one.api] += one.unanswered
        of[one.api] += one.requests
    return {api: Cases(cases[api], number) for api, number in of.items()}


def versions(before: CaptureFacts, after: CaptureFacts, tolerance: float) -> list[VersionChange]:
    """Compares the versions of each API's requests."""
    rows = []
    for api, old, new in _beside(_shares(before), _shares(after)):
        rows.append(VersionChange(api, old or {}, new or {}, _version(old or {}, new or {}, tolerance)))
    return _ordered(rows, lambda row: 0, lambda row: row.api)


def _shares(side: CaptureFacts) -> dict[str, dict[int, float]]:
    found: dict[str, Counter[int]] = defaultdict(Counter)
    for one in side.versions:
        found[one.api][one.version] += one.requests
    return {
        api: {version: number / counts.total() for version, number in sorted(counts.items())}
        for api, counts in found.items()
    }


def _version(before: Mapping[int, float], after: Mapping[int, float], tolerance: float) -> Change:
    if not before or not after:
        return Change.NEW if not before else Change.GONE
    return _moved(before, after, tolerance)


def _moved(before: Mapping[Key, float], after: Mapping[Key, float], tolerance: float) -> Change:
    """Compares shares of a whole."""
    moved = sum(abs(before.get(one, 0) - after.get(one, 0)) for one in {*before, *after}) / 2
    is_same = before.keys() == after.keys() and moved <= tolerance
    return Change.UNCHANGED if is_same else Change.CHANGED


def clients(before: CaptureFacts, after: CaptureFacts) -> list[ClientChange]:
    """Compares client ids and their software. If a side's list is cut off, a client that it lacks is UNKNOWN."""
    is_cut = [side.clients.total > len(side.clients) for side in (before, after)]
    rows = []
    for name, *both in _beside(_software(before), _software(after)):
        old, new = (counts or Counter() for counts in both)
        change = _client(old, new, is_cut)
        rows.append(ClientChange(name, _called(old), _called(new), old.total(), new.total(), change))
    return _ordered(rows, lambda row: max(row.requests_before, row.requests_after), lambda row: row.client_id or "")


def _software(side: CaptureFacts) -> dict[str | None, Counter[str | None]]:
    found: dict[str | None, Counter[str | None]] = defaultdict(Counter)
    for one in side.clients:
        found[one.client_id][one.software] += one.requests
    return found


def _called(counts: Counter[str | None]) -> tuple[str, ...]:
    """Returns the software names, the busiest first; "" stands for clients that don't name theirs."""
    return tuple(software or "" for software, _ in counts.most_common())


def _client(old: Counter[str | None], new: Counter[str | None], is_cut: list[bool]) -> Change:
    if not old:
        return Change.UNKNOWN if is_cut[0] else Change.NEW
    if not new:
        return Change.UNKNOWN if is_cut[1] else Change.GONE
    return Change.UNCHANGED if old.keys() == new.keys() else Change.CHANGED


def topics(before: CaptureFacts, after: CaptureFacts, tolerance: float) -> list[TopicChange]:
    """Compares how each topic is written: acks, idempotence, codec, records a batch. None of them is good or bad."""
    rows = []
    for topic, old, new in _beside(*({one.topic: one for one in side.topics} for side in (before, after))):
        found = _topic(old, new, tolerance) if old and new else {}
        change = together(found.values()) if found else _one_sided(old, new, before.topics, after.topics)
        rows.append(TopicChange(topic, old, new, change, found))
    return _ordered(rows, lambda row: _most(row.before, row.after, lambda side: side.batches), lambda row: row.topic)


def _topic(old: TopicFacts, new: TopicFacts, tolerance: float) -> dict[str, Change]:
    idempotent = [{True: part, False: 1 - part} for part in (_part(one.idempotent, one.batches) for one in (old, new))]
    return {
        "acks": _moved(shares(old.acks), shares(new.acks), tolerance),
        "idempotent": _moved(_used(idempotent[0]), _used(idempotent[1]), tolerance),
        "codec": _moved(shares(old.codecs), shares(new.codecs), tolerance),
        "records_a_batch": _rate(old.records_a_batch, new.records_a_batch, tolerance),
    }


def _used(parts: Mapping[Key, float]) -> dict[Key, float]:
    return {key: part for key, part in parts.items() if part}


def shares(counts: Mapping[str, int]) -> dict[str, float]:
    """Returns each count as a share of all of them."""
    total = sum(counts.values())
    return {key: count / total for key, count in counts.items()} if total else {}


def _part(cases: int, of: int) -> float:
    return cases / of if of else 0.0


def deliveries(before: CaptureFacts, after: CaptureFacts, tolerance: float) -> list[DeliveryChange]:
    """Compares how long each topic's batches took from their producer to their first consumer."""
    rows = []
    for topic, old, new in _beside(*({one.topic: one for one in side.deliveries} for side in (before, after))):
        found = _percentiles(old, new, min(old.batches, new.batches), less_is_better, tolerance) if old and new else {}
        rows.append(DeliveryChange(topic, old, new, together(found.values()) if found else Change.UNKNOWN, found))
    return _ordered(rows, lambda row: _most(row.before, row.after, lambda side: side.batches), lambda row: row.topic)


def groups(before: CaptureFacts, after: CaptureFacts, tolerance: float) -> list[GroupChange]:
    """Compares groups: members, rebalances by the second, the largest lag. Whether that is bad, findings say."""
    rows = []
    for group, old, new in _beside(*({one.group: one for one in side.groups} for side in (before, after))):
        found = {}
        if old and new:
            found = {
                "members": _number(old.members, new.members, 0.0),
                "rebalances": _rate(_by(old.rebalances, before), _by(new.rebalances, after), tolerance),
                "lag": _number(old.most_lag, new.most_lag, tolerance),
            }
        change = together(found.values()) if found else _one_sided(old, new, before.groups, after.groups)
        rows.append(GroupChange(group, old, new, change, found))
    return _ordered(
        rows, lambda row: _most(row.before, row.after, lambda side: side.most_lag or 0), lambda row: row.group
    )


def _number(before: int | None, after: int | None, tolerance: float) -> Change:
    return _rate(None if before is None else float(before), None if after is None else float(after), tolerance)


def _by(number: int, side: CaptureFacts) -> float | None:
    return number / side.seconds if side.seconds else None


def nodes(before: CaptureFacts, after: CaptureFacts, tolerance: float) -> list[NodeChange]:
    """Compares the load of nodes: the partitions that each leads, and its share of all bytes."""
    rows = []
    sides = [{one.node: (one, part) for one, part in _loads_of(side)} for side in (before, after)]
    for node, old, new in _beside(*sides):
        (was, before_part), (now, after_part) = old or (None, None), new or (None, None)
        if was and now:
            parts = _rate(before_part, after_part, tolerance)
            change = together([parts, _number(was.partitions, now.partitions, 0.0)])
        else:
            change = _one_sided(was, now, before.nodes, after.nodes)
        rows.append(NodeChange(node, was, now, before_part, after_part, change))
    return _ordered(rows, lambda row: 0, lambda row: row.node)


def _loads_of(side: CaptureFacts) -> Iterator[tuple[LoadOfNode, float | None]]:
    total = sum(one.written_bytes + one.read_bytes for one in side.nodes)
    for one in side.nodes:
        yield one, (one.written_bytes + one.read_bytes) / total if total else None


def _one_sided(old: Any, new: Any, before: Bounded[Any], after: Bounded[Any]) -> Change:
    """Judges what one side lacks: it may be among the rows that this side left out."""
    lacking, change = (before, Change.NEW) if new else (after, Change.GONE)
    return Change.UNKNOWN if lacking.total > len(lacking) else change


def findings(before: CaptureFacts, after: CaptureFacts, tolerance: float) -> list[FindingChange]:
    """Compares findings by rule and subject: those that appeared, disappeared, or stayed."""
    sides = [{(one.rule, one.subject): one for one in side.findings.every} for side in (before, after)]
    rows = []
    for (rule, subject), old, new in _beside(*sides):
        if old and new:
            rows.append(FindingChange(rule, subject, old, new, _measured(old, new, tolerance)))
        else:
            why = _untold(rule, before.findings if new else after.findings)
            change = Change.UNKNOWN if why else Change.NEW if new else Change.GONE
            rows.append(FindingChange(rule, subject, old, new, change, why))
    return _ordered(rows, lambda row: -row.shown.severity.rank, lambda row: (row.rule, row.subject))


def _measured(old: Finding, new: Finding, tolerance: float) -> Change:
    """Compares the measures of a finding. A finding fires at high values, so less is better."""
    if old.measure is None or new.measure is None or old.unit is not new.unit or new.unit not in _COMPARABLE:
        return Change.UNCHANGED
    return less_is_better(old.measure, new.measure, tolerance)


def _untold(rule: str, side: Findings) -> str:
    """Returns why a side without a finding of this rule may have one all the same; "" if it has none."""
    if side.not_judged is not None:
        return side.not_judged
    if reason := next((one.reason for one in side.unjudged if one.rule == rule), ""):
        return reason
    shown = sum(one.rule == rule for one in side.every)
    is_cut = shown >= MAX_SUBJECTS or side.found.total > len(side.found)
    return f"there, only the first {shown} subjects are told" if is_cut else ""


def _most(before: Any, after: Any, of: Callable[[Any], int]) -> int:
    return max(of(side) for side in (before, after) if side is not None)


def _ordered(
    rows: Iterable[Any], size: Callable[[Any], float], name: Callable[[Any], Any] = lambda row: row.api
) -> list[Any]:
    return sorted(rows, key=lambda row: (row.change.rank, -size(row), name(row)))
