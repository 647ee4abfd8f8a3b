"""Applies rules to a capture, with the conditions that all of them share.

A rule that must last fires if its measure reaches the threshold in 3 of 5 consecutive windows. It also needs 5 cases in
all and, if cases are a share, 100 chances, or that all chances are cases. A session's first and last window don't
count. All other rules fire at a single case. Measures are said to be "at least" if more than 1 % of the frames are in
gaps, or more than 1 % of the answers could not be read.

A number and the time beside it belong together. A rule that need not last, and counts, counts over the whole capture,
in however many windows its function made rows (`Rule.adds_up`). All other rules measure a window, or ten: the sentence
has the numbers of the worst one, and says when that was.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from itertools import chain
from typing import Any

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - as everybody imports it

from proxy.wire.keys import PRODUCE
from recorder.analysis import columns as t
from recorder.analysis.findings.causes import under_causes
from recorder.analysis.findings.rows import (
    CASES,
    CLIENTS,
    EVIDENCE,
    FROM_NS,
    MEASURE,
    NODES,
    OF,
    SUBJECT,
    TO_NS,
    WINDOW,
    WORDS,
)
from recorder.analysis.findings.rule import Need, Rule
from recorder.analysis.findings.rules import RULES
from recorder.analysis.findings.tables import Tables
from recorder.analysis.findings.windows import LONG
from recorder.analysis.parallel_questions import ask_all
from recorder.analysis.summary.bounds import Table
from recorder.analysis.summary.sections.findings import (
    LASTING,
    MAX_CONCERNED,
    MAX_EVIDENCE,
    MAX_SUBJECTS,
    MIN_CASES,
    MIN_OF,
    NEAR,
    Evidence,
    Finding,
    Findings,
    Unit,
    Unjudged,
)
from recorder.analysis.summary.words import measure
from recorder.capture import frames as c
from recorder.terminal import count, moment

# If a larger share is lost or unread, counts are lower bounds.
MUCH = 0.01
# Rules in a Spark plan: a job costs more than a rule's rows, but planning time grows faster than the plan.
_AT_ONCE = 7
_RULE, _THRESHOLD, _MUST_LAST = "rule", "threshold", "must_last"
# ADDS_UP: whether the measures of a subject's windows are added up. IS_SHARE: whether the measure is a share of cases.
# MEASURED_FROM, MEASURED_TO: the time that a row's measure is of
_ADDS_UP, _IS_SHARE, _MEASURED_FROM, _MEASURED_TO = "adds_up", "is_share", "measured_from", "measured_to"
TERMS = {
    _RULE: "string",
    _THRESHOLD: "double",
    _MUST_LAST: "boolean",
    _ADDS_UP: "boolean",
    _IS_SHARE: "boolean",
    _MEASURED_FROM: "bigint",
    _MEASURED_TO: "bigint",
}
_RANK, _NEAR, _WORST, _WINDOWS = "_rank", "_near", "_worst", "_windows"


@dataclass(frozen=True, slots=True)
class Read:
    """The answers of an API: how many, how many of them could not be read, and the most frequent reason for that."""

    answers: int
    unread: int
    reason: str | None


@dataclass(frozen=True, slots=True)
class Known:
    """Facts of a capture that decide which rules can be judged.

    `windows`: how many can be judged; `seconds`: their length. `of_api`: by the API's key. `lost`: the share of frames
    in gaps. `produced`: Produce requests; `produced_whole`: those that were kept whole. `without_records`: frames whose
    records a rule of the recording left out; `keeps_records`: whether any others are there.
    """

    windows: int
    seconds: float
    of_api: Mapping[int, Read]
    lost: float
    produced: int = 0
    produced_whole: int = 0
    without_records: int = 0
    keeps_records: bool = True

    def not_judged(self, rule: Rule) -> str | None:
        """Why the rule can't be judged; None if it can."""
        needed = LONG if Need.LONG in rule.needs else LASTING if rule.must_last else 0
        if self.windows < needed:
            return f"too short: {count(self.windows, 'whole window')} of {self.seconds:g} s; {needed} are needed"
        if Need.PRODUCED in rule.needs and self.produced and not self.produced_whole:
            return f"none of the {self.produced} Produce requests was kept whole"
        if Need.RECORDS in rule.needs and not self.keeps_records:
            return f"capture.records left out the records of all {self.without_records} frames with any"
        if Need.BODIES not in rule.needs:
            return None
        bodies = [read for key, read in self.of_api.items() if not rule.reads or key in rule.reads]
        answers, unread = sum(one.answers for one in bodies), sum(one.unread for one in bodies)
        if not answers or unread < answers:
            return None
        reason = max(bodies, key=lambda one: one.unread).reason
        return f"none of the {answers} answers that it needs could be read ({reason})"

    @property
    def is_lower_bound(self) -> bool:
        """True if so much is missing that counts are lower bounds."""
        answers, unread = (sum(getattr(one, name) for one in self.of_api.values()) for name in ("answers", "unread"))
        return self.lost > MUCH or unread > MUCH * answers


def judge(tables: Tables, rules: Sequence[Rule] = RULES, own: Mapping[str, float] | None = None) -> Findings:
    """Judges the capture. `own`: thresholds by rule that replace the default ones."""
    known = _known(tables)
    reasons = {rule.name: why for rule in rules if (why := known.not_judged(rule))}
    judged = [rule for rule in rules if rule.name not in reasons]
    limits = {rule.name: rule.threshold for rule in rules} | dict(own or {})
    some = [judged[at : at + _AT_ONCE] for at in range(0, len(judged), _AT_ONCE)]
    rows = chain.from_iterable(ask_all([partial(_fired, tables, rules, limits) for rules in some]))
    by_name = {rule.name: rule for rule in rules}
    found = [finding(row, by_name[row[_RULE]], limits[row[_RULE]], known.is_lower_bound) for row in rows]
    order = [rule.name for rule in rules]
    merged = _in_order(under_causes(_in_order(found, order)), order)
    quiet = tuple(rule.name for rule in judged if rule.name not in {one.rule for one in found})
    open_ = tuple(Unjudged(*pair) for pair in reasons.items())
    return Findings(found=Table(tuple(merged)), quiet=quiet, unjudged=Table(open_))


def _in_order(found: Iterable[Finding], rules: Sequence[str]) -> list[Finding]:
    return sorted(found, key=lambda one: (_rank(one), -(one.share or 0), rules.index(one.rule), one.subject))


def _rank(found: Finding) -> int:
    """The finding's place in the order: gaps come first, because all counts depend on them."""
    return -1 if found.rule == "gaps" else found.severity.rank


def _fired(tables: Tables, rules: Sequence[Rule], limits: Mapping[str, float]) -> list[Any]:
    """The findings of these rules, a row each."""
    found = reduce(DataFrame.unionByName, (_of(tables, rule, limits[rule.name]) for rule in rules))
    return lasting(found).collect()


def _of(tables: Tables, rule: Rule, threshold: float) -> DataFrame:
    """The rule's rows, with TERMS."""
    length = tables.windows.length_ns
    bounds = (F.col(WINDOW) * length, (F.col(WINDOW) + 1) * length) if rule.must_last else (FROM_NS, TO_NS)
    measured_from, measured_to = (F.col(one) if isinstance(one, str) else one for one in bounds)
    return rule.find(tables).withColumns(
        {
            _RULE: F.lit(rule.name),
            _THRESHOLD: F.lit(float(threshold)),
            _MUST_LAST: F.lit(rule.must_last),
            _ADDS_UP: F.lit(rule.adds_up),
            _IS_SHARE: F.lit(rule.unit is Unit.SHARE),
            _MEASURED_FROM: measured_from,
            _MEASURED_TO: measured_to,
        }
    )


def lasting(rows: DataFrame) -> DataFrame:
    """One row for each rule and subject that fired. Needs rows of rules, with TERMS."""
    subject = [_RULE, SUBJECT]
    near = Window.partitionBy(*subject).orderBy(WINDOW).rangeBetween(1 - NEAR, 0)
    worst = Window.partitionBy(*subject).orderBy(F.desc(MEASURE), WINDOW)
    whole = F.when(F.col(_ADDS_UP), F.sum(MEASURE).over(Window.partitionBy(*subject))).otherwise(F.col(MEASURE))
    hot = rows.withColumn("_whole", whole).filter(F.col("_whole") >= F.col(_THRESHOLD))
    ranked = hot.withColumns({_NEAR: F.count("*").over(near), _RANK: F.row_number().over(worst)})
    shown = F.when(F.col(_RANK) <= MAX_EVIDENCE, F.struct(_RANK, MEASURE, EVIDENCE))
    of_worst = F.struct(WORDS, CASES, OF, _MEASURED_FROM, _MEASURED_TO)
    found = ranked.groupBy(*subject).agg(
        *(F.first(name).alias(name) for name in (_MUST_LAST, _IS_SHARE, _ADDS_UP)),
        F.max(_NEAR).alias(_NEAR),
        F.count("*").alias(_WINDOWS),
        F.sum(CASES).alias(CASES),
        F.sum(OF).alias(OF),
        F.max("_whole").alias(MEASURE),
        F.min(FROM_NS).alias(FROM_NS),
        F.max(TO_NS).alias(TO_NS),
        F.min_by(of_worst, _RANK).alias(_WORST),
        *(F.array_distinct(F.flatten(F.collect_list(name))).alias(name) for name in (CLIENTS, NODES)),
        F.array_sort(F.collect_list(shown)).alias(EVIDENCE),
    )
    is_all = F.col(_IS_SHARE) & (F.col(CASES) == F.col(OF))
    is_many = (F.col(CASES) >= MIN_CASES) & ((F.coalesce(OF, F.lit(MIN_OF)) >= MIN_OF) | is_all)
    kept = found.filter(~F.col(_MUST_LAST) | ((F.col(_NEAR) >= LASTING) & is_many))
    first = Window.partitionBy(_RULE).orderBy(F.desc(MEASURE), F.desc(CASES), SUBJECT)
    return kept.withColumn(_RANK, F.row_number().over(first)).filter(F.col(_RANK) <= MAX_SUBJECTS)


def finding(row: Any, rule: Rule, limit: float, is_lower_bound: bool) -> Finding:
    """The finding of a row of `lasting`. `limit`: the rule's threshold."""
    shown, worst = measure(row[MEASURE], rule.unit), row[_WORST]
    special = rule.otherwise if rule.otherwise and worst[WORDS].get(rule.otherwise.word) else rule
    is_of_window = not rule.adds_up and row[_WINDOWS] > 1
    counts = worst if is_of_window else row
    words = {
        **worst[WORDS],
        "subject": row[SUBJECT],
        "measure": f"at least {shown}" if is_lower_bound else shown,
        "cases": counts[CASES],
        "of": counts[OF],
    }
    when = (worst[_MEASURED_FROM], worst[_MEASURED_TO]) if is_of_window else (None, None)
    words["when"] = _at_worst(*when)
    says = special.says if "{when}" in special.says else f"{special.says}{{when}}"
    return Finding(
        rule.name,
        rule.severity,
        row[SUBJECT],
        says.format_map(words),
        special.advice,
        row[FROM_NS],
        row[TO_NS],
        row[MEASURE],
        limit,
        rule.unit,
        row[CASES] / row[OF] if row[OF] else None,
        _distinct(_evidence(one) for one in row[EVIDENCE] if one[EVIDENCE].connection is not None),
        worst_from_ns=when[0],
        worst_to_ns=when[1],
        clients=_few(row[CLIENTS]),
        nodes=_few(row[NODES]),
    )


def _few(concerned: Iterable[Any]) -> tuple[Any, ...]:
    """Those that a finding is about; none if they are so many that they are not told."""
    every = tuple(sorted(concerned))
    return every if len(every) <= MAX_CONCERNED else ()


def _at_worst(from_ns: int | None, to_ns: int | None) -> str:
    """When the sentence's numbers were measured, if that is not the finding's whole time."""
    if from_ns is None or to_ns is None:
        return ""
    began, ended = moment(from_ns), moment(to_ns)
    day, _, clock = ended.partition(" ")
    until = "" if ended == began else f" to {clock if began.startswith(day) else ended}"
    return f" (at worst: {began}{until} UTC)"


def _distinct(found: Iterable[Evidence]) -> tuple[Evidence, ...]:
    """Each exchange or connection once, at its first place."""
    by_id: dict[str, Evidence] = {}
    for one in found:
        by_id.setdefault(one.id, one)
    return tuple(by_id.values())


def _evidence(row: Any) -> Evidence:
    one = row[EVIDENCE]
    return Evidence(one.session, one.connection, one.exchange, at_ns=one.at_ns, measure=row[MEASURE])


def _known(tables: Tables) -> Known:
    answered = tables.kept.filter(F.col(t.ANSWERED_AT).isNotNull())
    of_api = answered.groupBy(c.API_KEY).agg(F.count("*"), F.count(t.UNREAD), F.mode(t.UNREAD)).collect()
    return Known(
        tables.windows.judged,
        tables.windows.seconds,
        {row[0]: Read(*row[1:]) for row in of_api if row[0] is not None},
        _lost(tables),
        *_produced(tables.captured.chosen),
        *_records(tables),
    )


def _produced(frames: DataFrame) -> tuple[int, int]:
    """How many Produce requests there are, and how many of them were kept whole."""
    is_produce = (F.col(c.KIND) == c.REQUEST) & (F.col(c.API_KEY) == PRODUCE) & (F.col(c.DIALECT) == c.KAFKA)
    is_whole = F.col(c.STORED) == F.col(c.SIZE)
    found = frames.filter(is_produce).agg(F.count("*"), F.count_if(is_whole)).collect()[0]
    return found[0], found[1]


def _records(tables: Tables) -> tuple[int, bool]:
    """How many frames lack records by a rule of the recording, and whether any batch has its records."""
    lacking = tables.captured.chosen.filter(F.col(c.RECORDS).isNotNull()).count()
    return lacking, not lacking or bool(tables.batches.filter(F.col("is_intact").isNotNull()).head(1))


def _lost(tables: Tables) -> float:
    """The share of frames in gaps, as far as their size is known."""
    gaps = tables.captured.events.filter(F.col(c.KIND) == c.EVENT_GAP)
    lost = gaps.agg(F.sum(F.when(F.col(c.FRAMES).between(0, c.MAX_COUNTED), F.col(c.FRAMES)))).collect()[0][0] or 0
    return lost / (lost + tables.captured.frames.count()) if lost else 0.0
