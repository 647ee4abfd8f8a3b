"""The verdict on one exchange: does the target's answer say what the recorded one said? A pure function of both.

    answered      the target answered if the recorded cluster did
    errors        the same codes in the same elements. Where codes differ, nothing else of their struct is compared, and
                  nothing at all where the recorded cluster refused a part for a while (`refused_parts`)
    structure     null where null was, and the same elements; in answers to Fetch, ShareFetch and ShareAcknowledge only
                  elements with errors
    values        by the rules of `requests.fields`: equal, or the target's value for the recorded one

Elements of arrays are matched by their names (`elements`), in the target's terms. A recorded value without a known
counterpart only has to be there; an element with such a name excuses one extra element of the target.

An answer with the recorded bytes needs no walk if each of its values is its own counterpart (`unchanged`).

Structs about what is from before the recording (`from_before`) are not compared: the target can't have it.

Structs that differ as the consequence of an earlier difference (`one_sided`) are compared in errors only, and may be on
one side alone.

Not compared here: fetched records (`records`), and single members' assignments (`unions`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from enum import StrEnum
from typing import Any, NamedTuple

from proxy.wire.embedded import expand
from proxy.wire.keys import (
    DESCRIBE_SHARE_GROUP_OFFSETS,
    JOIN_GROUP,
    SYNC_GROUP,
)
from proxy.wire.places import Level
from recorder.replay.comparison.compared_fields import ComparedField, ComparedFields, compared_fields
from recorder.replay.comparison.elements import Matched, Name, frozen, matched
from recorder.replay.comparison.known import Counterparts, is_nothing
from recorder.replay.comparison.shown import shown
from recorder.replay.comparison.struct_paths import StructPath, enclosing_names
from recorder.replay.comparison.terms import NOWHERE, EnclosingNames, expected, expected_blob, expected_name, with_epoch
from recorder.replay.comparison.tolerated import are_alike, is_of_the_moment
from recorder.replay.comparison.unchanged import WITH_BLOBS, is_its_own_counterpart
from recorder.replay.comparison.unions import AssignmentParts, together
from recorder.replay.mapping import ValueKind
from recorder.replay.outcome import Difference
from recorder.replay.plan import Dropped, Values
from recorder.replay.requests.apis import LONG_POLLS, OF_SESSIONS
from recorder.replay.requests.fields import ComparisonRule, Fields
from recorder.replay.requests.refused_parts import WITHHELD_ERRORS

# Differences that are kept of one exchange: enough to recognize an answer that differs everywhere.
MOST_DIFFERENCES = 20
# Share groups begin before their members do (`share_starts`): this field may have no recorded value yet.
_BEGINNING = (DESCRIBE_SHARE_GROUP_OFFSETS, "groups.topics.partitions.start_offset")


class DifferenceKind(StrEnum):
    """The gravest kind of difference between two answers. The value stands in reports."""

    SAME = "same"
    UNCOMPARED = "no recorded answer"
    UNANSWERED = "unanswered"
    ERROR = "error"
    STRUCTURE = "structure"
    VALUE = "value"

    @property
    def is_mismatch(self) -> bool:
        """True if the answers differ."""
        return self not in (DifferenceKind.SAME, DifferenceKind.UNCOMPARED)


_GRAVEST_FIRST = (DifferenceKind.ERROR, DifferenceKind.STRUCTURE, DifferenceKind.VALUE)


class AnswerVerdict(NamedTuple):
    """The verdict on an exchange. `differences`: the first MOST_DIFFERENCES."""

    kind: DifferenceKind
    differences: tuple[Difference, ...] = ()


_SAME = AnswerVerdict(DifferenceKind.SAME)


def answer_verdict(
    api_key: int,
    version: int,
    recorded: Values | None,
    replayed: Values | None,
    known: Counterparts,
    *,
    dropped: Collection[Dropped] = (),
    consequences: Collection[EnclosingNames] = frozenset(),
    before: Collection[EnclosingNames] = frozenset(),
) -> AnswerVerdict:
    """The verdict on an exchange.

    Args:
        version: of the recorded answer. Both answers have its shape; a field that the target's lacks isn't compared.
        recorded, replayed: the answers' values, each in its own side's terms; None: there is no answer.
        dropped: partitions that weren't sent: left out on both sides.
        consequences: structs that differ because of an earlier difference: only their errors are compared.
        before: structs about what is from before the recording: they are not compared.
    """
    if recorded is None:
        return AnswerVerdict(DifferenceKind.SAME if replayed is None else DifferenceKind.UNCOMPARED)
    if replayed is None:
        return AnswerVerdict(DifferenceKind.UNANSWERED)
    if recorded is replayed and not dropped and is_its_own_counterpart(api_key, version, recorded, known):
        return _SAME
    unsent = frozenset((one.topic, one.partition) for one in dropped)
    comparison = _Comparison(api_key, known, unsent, consequences, before)
    if api_key in WITH_BLOBS:
        recorded, replayed = (expand("response", api_key, values) for values in (recorded, replayed))
    comparison.struct(compared_fields(api_key, version), StructPath(), recorded, replayed)
    return comparison.verdict


class _Comparison:
    """One comparison: walks both answers along the response's fields, and notes differences."""

    def __init__(
        self,
        api_key: int,
        known: Counterparts,
        dropped: frozenset[tuple[str | bytes, int]],
        consequences: Collection[EnclosingNames],
        before: Collection[EnclosingNames],
    ) -> None:
        self._api_key, self._known, self._dropped = api_key, known, dropped
        self._consequences, self._before = consequences, before
        self._differences: list[Difference] = []
        self._kinds: set[DifferenceKind] = set()

    @property
    def verdict(self) -> AnswerVerdict:
        """The verdict on what was compared so far."""
        kind = next((kind for kind in _GRAVEST_FIRST if kind in self._kinds), DifferenceKind.SAME)
        return AnswerVerdict(kind, tuple(self._differences))

    def struct(self, of: ComparedFields, place: StructPath, recorded: Values, target: Values) -> None:
        """Compares two structs field by field, unless an error makes their other fields meaningless."""
        if place.around in self._before:
            return
        common = [line for line in of if line.name in recorded and line.name in target]
        if _was_refused(common, recorded) or is_of_the_moment(self._api_key, recorded, target):
            return
        if self._errors_differ(common, place, recorded, target):
            return
        if self._follows(place.around):
            return
        for line in common:
            if line.is_plain and recorded[line.name] == target[line.name]:
                continue
            if line.is_compared and (
                line.how is not ComparisonRule.ELECTED or self._elected_the_same(place, recorded, target)
            ):
                self._field(line, place, recorded, target)
            for field in line.unions:
                self._union(line.name, field, place, recorded, target)

    def _errors_differ(self, common: list[ComparedField], place: StructPath, recorded: Values, target: Values) -> bool:
        differing = [line for line in common if line.is_error and recorded[line.name] != target[line.name]]
        for line in differing:
            here, there = recorded[line.name], target[line.name]
            if not are_alike(self._api_key, here, there):
                self._differs(DifferenceKind.ERROR, place.text(line.name), shown(here), shown(there))
        return bool(differing)

    def _elected_the_same(self, place: StructPath, recorded: Values, target: Values) -> bool:
        leader = expected(self._known, ValueKind.MEMBER, recorded.get("leader"), place.around)
        return bool(leader == target.get("leader"))

    def _field(self, line: ComparedField, place: StructPath, recorded: Values, target: Values) -> None:
        here, there = recorded[line.name], target[line.name]
        if line.how is ComparisonRule.MAPPED:
            self._mapped(line, place, recorded, target)
        elif (here is None) != (there is None):
            self._differs(DifferenceKind.STRUCTURE, place.text(line.name), shown(here), shown(there))
        elif here is None:
            return
        elif line.named is not None:
            self._array(line, place, here, there)
        elif line.inner:
            self.struct(line.inner, place.inside(line), here, there)
        elif line.how is not ComparisonRule.STRUCTURE and not place.is_brokers:
            self._equal(line, place, here, there)

    def _equal(self, line: ComparedField, place: StructPath, here: Any, there: Any) -> None:
        if line.is_secret and _is_masked(here):
            return
        if isinstance(here, dict):  # a blob that was expanded
            here = expected_blob(self._known, here, place.around)
        if here is not None and frozen(here) != frozen(there):
            self._differs(DifferenceKind.VALUE, place.text(line.name), shown(here), shown(there))

    def _mapped(self, line: ComparedField, place: StructPath, recorded: Values, target: Values) -> None:
        if (self._api_key, line.path) == _BEGINNING and is_nothing(recorded[line.name]):
            return
        here, there = with_epoch(recorded, line.name), with_epoch(target, line.name)
        wanted = self._wanted(line.what, here, place.around)
        if is_nothing(here) != is_nothing(there) or (wanted is not None and frozen(wanted) != frozen(there)):
            expectation = "" if wanted in (None, here) else f" (here {shown(wanted)})"
            self._differs(DifferenceKind.VALUE, place.text(line.name), shown(here) + expectation, shown(there))

    def _wanted(self, what: ValueKind | None, here: Any, around: EnclosingNames) -> Any | None:
        if not isinstance(here, list):
            return expected(self._known, what, here, around)
        each = [expected(self._known, what, one, around) for one in here]
        return None if None in each else each

    def _array(self, line: ComparedField, place: StructPath, here: list[Values], there: list[Values]) -> None:
        found = self._met(line, place, here, there)
        for number, (one, other) in enumerate(found.pairs):
            inside = place.at(line, number, one, self._api_key)
            if not self._is_dropped(inside.around):
                self.struct(line.inner, inside, one, other)
        if line.how is not ComparisonRule.STRUCTURE and not place.is_brokers:
            self._one_sided(line, place, found)

    def _met(self, line: ComparedField, place: StructPath, here: list[Values], there: list[Values]) -> Matched:
        def named(element: Values, fields: Fields, name: Name) -> Name | None:
            return expected_name(
                self._known, line.whats, element, fields, name, enclosing_names(place.around, line, element)
            )

        return matched(self._api_key, line.path, here, there, named)

    def _one_sided(self, line: ComparedField, place: StructPath, found: Matched) -> None:
        for element in found.only_recorded:
            if not _was_refused(line.inner, element):
                self._alone(line, place, element, ("present", ""))
        # each recorded element without a known counterpart may be one of these
        for element in found.only_target[len(found.unknown) :]:
            self._alone(line, place, element, ("", "present"))

    def _alone(self, line: ComparedField, place: StructPath, element: Values, sides: tuple[str, str]) -> None:
        inside = place.at(line, 0, element, self._api_key)
        # Answers in sessions leave out partitions without news: which ones, depends on how the log is cut into answers.
        if self._api_key in OF_SESSIONS and not _has_error(element):
            return
        if not inside.is_brokers and not self._may_be_alone(line, inside, element):
            self._differs(DifferenceKind.STRUCTURE, inside.text(), *sides)

    def _may_be_alone(self, line: ComparedField, inside: StructPath, element: Values) -> bool:
        """True for a partition that was dropped, refused or is a consequence, and for a topic with such ones only."""
        below = [
            enclosing_names(inside.around, one, partition)
            for one in line.inner
            if one.level is Level.PARTITION
            for partition in element.get(one.name) or ()
            if not _was_refused(one.inner, partition)
        ]
        has_refused = not below and any(one.level is Level.PARTITION and element.get(one.name) for one in line.inner)
        around = below if below or has_refused else [inside.around]
        return all(self._is_dropped(where) or self._follows(where) for where in around)

    def _is_dropped(self, where: EnclosingNames) -> bool:
        return bool(self._dropped) and (where.topic, where.partition) in self._dropped

    def _follows(self, where: EnclosingNames) -> bool:
        return where in self._consequences or where in self._before

    def _union(self, members: str, field: str, place: StructPath, recorded: Values, target: Values) -> None:
        """Compares the assignments of a described group's members, all together."""
        here, there = (together(group[members] or (), field) for group in (recorded, target))
        wanted = self._given_here(here)
        if wanted is not None and wanted != there:
            path = place.text(f"{members}.{field}")
            self._differs(DifferenceKind.VALUE, path, _parts(wanted - there), _parts(there - wanted))

    def _given_here(self, given: AssignmentParts) -> AssignmentParts | None:
        """Recorded assignments with the target's topics; None if one of these is unknown."""
        found = set()
        for of, *rest in given:
            what = ValueKind.TOPIC_ID if isinstance(of, bytes) else ValueKind.TOPIC_NAME
            wanted = of if len(rest) > 1 else expected(self._known, what, of, NOWHERE)
            if wanted is None:
                return None
            found.add((wanted, *rest))
        return frozenset(found)

    def _differs(self, kind: DifferenceKind, path: str, recorded: str, replayed: str) -> None:
        self._kinds.add(kind)
        if len(self._differences) < MOST_DIFFERENCES:
            self._differences.append(Difference(path, recorded, replayed))


def _was_refused(of: Iterable[ComparedField], recorded: Values) -> bool:
    """True for a recorded struct with an error after which its client asked again."""
    return any(line.is_error and recorded.get(line.name) in WITHHELD_ERRORS for line in of)


def _has_error(element: Values) -> bool:
    """True for a partition with an error, and for a topic with such a partition."""
    return bool(element.get("error_code")) or any(map(_has_error, element.get("partitions") or ()))


def _parts(given: AssignmentParts) -> str:
    return shown(sorted(given, key=repr))


def _is_masked(value: object) -> bool:
    """True for the zeros that replace a secret in a capture."""
    return isinstance(value, str) and bool(value) and not value.strip("\0")


# Why the latencies of an exchange count apart, as reports say it. A joining member waits for the others, a follower for
# the leader's assignment, a poll at a log's end for records: an API's percentiles are those of the cluster's work.
JOINS, SYNCS, EMPTY_POLLS = "joins", "syncs", "empty polls"
_OF_GROUPS = {JOIN_GROUP: JOINS, SYNC_GROUP: SYNCS}


def reason_apart(api_key: int, recorded: Values | None, replayed: Values | None) -> str:
    """Why the latencies of an exchange count apart; empty if they don't.

    A poll counts apart if either side had no records: then its two latencies aren't of the same work.
    """
    if api_key in LONG_POLLS:
        has_both = _has_records(recorded) and (replayed is recorded or _has_records(replayed))
        return "" if has_both else EMPTY_POLLS
    return _OF_GROUPS.get(api_key, "")


def _has_records(answer: Values | None) -> bool:
    for topic in (answer or {}).get("responses") or ():
        for partition in topic["partitions"]:
            if partition.get("records"):
                return True
    return False
