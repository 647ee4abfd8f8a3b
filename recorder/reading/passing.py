"""Frames and exchanges that pass a filter, and the number of those of which nobody can tell.

A body is opened only for a subject whose head may pass. What a filter asks of errors alone is answered by the codes
that are read anyway.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from proxy.wire.budget import DEFAULT_BUDGET, Budget
from proxy.wire.long_polls import LONG_POLLS
from recorder.capture import frames as c
from recorder.capture.reader import HEADS, Row
from recorder.capture.remote import Place
from recorder.facts.response_errors import ResponseErrors, row_errors
from recorder.query.columns import between, rows_of_exchanges, rows_of_frames
from recorder.query.evaluation import (
    UNKNOWN,
    UNKNOWN_ELEMENT,
    Element,
    PartlyKnown,
    Subject,
    Truth,
    element_predicate,
    predicate,
)
from recorder.query.fields import FIELDS, OF_ELEMENTS, OF_RESPONSES, Level
from recorder.query.shorthand import Filter
from recorder.query.syntax import EVERYTHING, Node, names
from recorder.reading.elements import LOST, Side, Told, joined, side_of, side_of_partitions, unknown_element, unread_of
from recorder.reading.exchanges import Pair, pairs
from recorder.reading.heads import Head, asked_at, of_exchange, of_frame, of_half
from recorder.reading.known import NO_FACTS, Known, answered, partitions
from recorder.reading.rows import OF_FIELDS, ByFile, Choice, none, rows
from recorder.reading.told import told

# two clocks tell when a request arrived: the wall's, and by its response the monotonic one
_SLACK_NS = 10**9
_ERRORS_ALONE = frozenset({"error"})


@dataclass(slots=True)
class Unsure:
    """Subjects that a filter does not pass although they may meet it.

    `unread`: by the reason why something of them is unknown. `normal`: those that only an error that is a normal step
    of the protocol keeps from passing. `records_not_kept`: records that a rule has left out of the capture.
    """

    unread: Counter[str] = field(default_factory=Counter)
    normal: int = 0
    records_not_kept: int = 0


class Judge:
    """Applies a filter.

    Args:
        told: what other frames tell; it may grow.
        known: the capture's facts.
        columns: fields that are wanted of each subject, besides those of the filter.
        with_normal: the filter that subjects pass which only an error that is a normal step keeps from passing.
    """

    def __init__(
        self,
        node: Node,
        told: Told,
        columns: frozenset[str] = frozenset(),
        *,
        known: Known = NO_FACTS,
        most: int = DEFAULT_BUDGET,
        with_normal: Node | None = None,
    ) -> None:
        self.told, self._known, self._most = told, known, most
        self._names = names(node) | columns
        self._is_everything = node == EVERYTHING
        self._passes, self._of_element = predicate(node), element_predicate(node)
        self._with_normal = predicate(with_normal) if with_normal is not None else None
        self.of_elements = self._names & OF_ELEMENTS
        self.by_codes = self.of_elements == _ERRORS_ALONE
        self._needs_sides = bool(self.of_elements) and not self.by_codes
        self._filters = [node] if with_normal is None else [node, with_normal]
        # elements are wanted even where the heads decide
        self._shows_elements = bool(columns & OF_ELEMENTS)
        self.needs_topics = "topic" in self._names
        self.needs_software = bool(self._names & {"software", "software_version"})
        self.unsure = Unsure()

    @property
    def by_file(self) -> ByFile:
        """What facts tell of the files' rows: those that may pass, and more of each."""
        fields = self.of_elements if self._needs_sides else frozenset[str]()
        return ByFile(
            where=lambda files, where: self._known.narrowed(files, self._filters, self.told.topics, where),
            further=lambda file, heads: self._known.of_rows(file, heads, fields),
        )

    def needs_body(self, row: Row) -> bool:
        """True if the filter asks for elements, what the row's head tells does not decide, nor do facts."""
        return partitions(row) is None and self._needs_side(row)

    def _needs_side(self, row: Row) -> bool:
        if not self._needs_sides or row[c.EXCHANGE] is None:
            return False
        return self._may_need(self._passes(Subject(self._with_software(of_half(row)), (_unknown(row),))))

    def _may_need(self, verdict: Truth) -> bool:
        return verdict is None or (verdict and self._shows_elements)

    def side(self, row: Row, reading: ResponseErrors | None) -> Side | None:
        """What a frame says, if the filter asks for that. `reading`: the errors of a response."""
        if not self._needs_side(row):
            return None
        if _has_no_error(reading) and self._passes_without_error(row) is False:
            return None
        return self._side(row)

    def opened(self, pair: Pair) -> Pair:
        """An exchange with what its frames say, as `side` has it."""
        asked = self.side(pair.request, None) if pair.request else None
        told = self.side(pair.response, pair.reading) if pair.response else None
        return pair._replace(asked=asked, told=told)

    def _side(self, row: Row) -> Side:
        named = partitions(row)
        return side_of(row, self._names, Budget(self._most)) if named is None else side_of_partitions(named)

    def _passes_without_error(self, row: Row) -> Truth:
        """The verdict on a response that is known to hold no error."""
        return self._passes(Subject(self._with_software(of_half(row)), (_unknown(row, error=0),)))

    def passes(self, pair: Pair) -> bool:
        """True for an exchange that passes; counts those that may pass."""
        if self._is_everything:
            return True
        return self._judged(self._subject(pair), self._why(pair.reading, _request(pair), pair.told))

    def values(self, pair: Pair, columns: Sequence[str]) -> dict[str, Any]:
        """The values of an exchange that passed, by the names of fields; of elements those that pass, as a list."""
        return self._values(self._subject(pair), columns)

    def elements(self, pair: Pair) -> list[Element]:
        """The elements of an exchange that passed which meet the filter; [] if none are asked for."""
        if not self.of_elements:
            return []
        subject = self._subject(pair)
        return [each for each in subject.elements if self._of_element(subject, each)]

    def head(self, pair: Pair) -> Head:
        """What a filter may ask of an exchange's head."""
        return self._with_software(of_exchange(pair))

    def frame_values(self, row: Row, columns: Sequence[str]) -> dict[str, Any]:
        """As `values`, of a frame."""
        return self._values(Subject(self._with_software(of_frame(row)), self._of_frame(row)[0]), columns)

    def _subject(self, pair: Pair) -> Subject:
        unknown = _unknown(pair.head, **_of_response(pair.response, pair.reading))
        return Subject(self.head(pair), self._elements(pair.reading, _request(pair), pair.told, unknown))

    def _values(self, subject: Subject, columns: Sequence[str]) -> dict[str, Any]:
        passing = [each for each in subject.elements if self._of_element(subject, each)]
        return {name: _value(subject.head, passing, name) for name in columns}

    def passes_frame(self, row: Row) -> bool:
        """True for a frame that passes; counts those that may pass. Its row holds its body if `frame_needs_body`."""
        elements, unread = self._of_frame(row)
        return self._judged(Subject(self._with_software(of_frame(row)), elements), unread)

    def _of_frame(self, row: Row) -> tuple[Sequence[Element], str]:
        """The elements of a frame, and why some of them are unknown."""
        reading = side = None
        is_response = row[c.KIND] == c.RESPONSE
        if self.by_codes or self._frame_needs_side(row):
            reading = self._frame_reading(row) if is_response and "error" in self.of_elements else None
            side = None if self.by_codes else self._side(row)
        request, response = (None, side) if is_response else (side, None)
        unknown = _unknown(row, **_of_response(row if is_response else None, reading))
        return self._elements(reading, request, response, unknown), self._why(reading, request, response)

    def _frame_reading(self, row: Row) -> ResponseErrors:
        return answered(row) or row_errors(row, budget=Budget(self._most))

    def _elements(
        self, reading: ResponseErrors | None, request: Side | None, response: Side | None, unknown: Element
    ) -> Sequence[Element]:
        if self.by_codes:
            return _codes(reading)
        if not self._needs_sides:
            return ()
        found = joined(request, response, self.told, unknown)
        is_partly_read = response is not None and response.unread and not response.has_all
        whole = PartlyKnown({**unknown, **(request.whole if request else {})})
        return [*found, *_further_codes(found, reading, whole)] if is_partly_read else found

    def _why(self, reading: ResponseErrors | None, request: Side | None, response: Side | None) -> str:
        if self.by_codes:
            return reading.unread.value if reading and reading.unread else ""
        return unread_of(request, response)

    def frame_needs_body(self, row: Row) -> bool:
        """As `needs_body`, of a frame by itself."""
        if row[c.KIND] == c.RESPONSE and "error" in self.of_elements and answered(row) is None:
            return self.by_codes or self._frame_needs_side(row)
        return partitions(row) is None and self._frame_needs_side(row)

    def _frame_needs_side(self, row: Row) -> bool:
        if not self._needs_sides:
            return False
        return self._may_need(self._passes(Subject(self._with_software(of_frame(row)), (_unknown(row),))))

    def _judged(self, subject: Subject, unread: str) -> bool:
        found = self._passes(subject)
        if found is None:
            self.unsure.unread[unread] += 1
        elif not found and self._with_normal and self._with_normal(subject):
            self.unsure.normal += 1
        return found is True

    def _with_software(self, head: Head) -> Head:
        if self.needs_software:
            found = self.told.software_of((head[c.SESSION], head[c.CONNECTION]))
            head["software"], head["software_version"] = found
        return head


def _value(head: Mapping[str, Any], elements: Sequence[Element], name: str) -> Any:
    """A head's value; of elements all different values, in their order."""
    if FIELDS[name].level is Level.HEAD:
        return head.get(name)
    found = (each.get(name) for each in elements)
    return [*dict.fromkeys(value for value in found if value is not None and value is not UNKNOWN)]


def _request(pair: Pair) -> Side | None:
    return pair.asked if pair.request else Side(unread=LOST)


def _unknown(row: Row, **known: int | None) -> Element:
    """The element of a frame that can't be read, or of its exchange. `known`: what is known of it all the same."""
    found = unknown_element(row[c.DIALECT], row[c.API_KEY], row[c.API_VERSION])
    return PartlyKnown({**found, **known}) if known else found


def _of_response(response: Row | None, reading: ResponseErrors | None) -> dict[str, int | None]:
    """What is known of all elements of an exchange whose request can't be read."""
    if response is None:
        return dict.fromkeys(OF_RESPONSES)
    return {"error": 0} if _has_no_error(reading) else {}


def _has_no_error(reading: ResponseErrors | None) -> bool:
    return reading is not None and not reading.unread and not reading.codes


def _codes(reading: ResponseErrors | None) -> Sequence[Element]:
    """Elements with nothing but the codes of a response."""
    if reading is None:
        return ()
    if reading.unread:
        return (UNKNOWN_ELEMENT,)
    return [{"error": code} for code in reading.codes] or [{"error": 0}]


def _further_codes(found: Sequence[Element], reading: ResponseErrors | None, whole: Element) -> Iterator[Element]:
    """An element for each code of a response that no element has: codes may be readable where their places are not.

    `whole`: what is known of all elements.
    """
    if reading is not None and not reading.unread:
        known: list[Any] = [each.get("error") for each in found]
        for code in (Counter(reading.codes) - Counter(known)).elements():
            yield PartlyKnown({**whole, "error": code})


def judge(
    folder: Place,
    wanted: Filter,
    columns: frozenset[str] = frozenset(),
    *,
    known: Known = NO_FACTS,
    most: int = DEFAULT_BUDGET,
    with_normal: Node | None = None,
) -> Judge:
    """The judge of a filter, which knows what the capture tells. Errors: as of `told`."""
    asked = wanted.names | columns
    needs_topics, needs_software = "topic" in asked, bool(asked & {"software", "software_version"})
    found = Told()
    if needs_topics or needs_software:
        found = told(folder, topics=needs_topics, software=needs_software, known=known, most=most)
    return Judge(wanted.node, found, columns, known=known, most=most, with_normal=with_normal)


def frames(
    folder: Place, judge: Judge, node: Node, *, bodies: Choice = none, most: int = DEFAULT_BUDGET
) -> Iterator[Row]:
    """The frames that pass, in the order of arrival. `bodies`: as of `rows`; the judge may need more of them.

    Errors: as of `rows`.
    """

    for row in rows(folder, rows_of_frames(node), bodies=bodies_of_frames(judge, bodies), most=most):
        if judge.passes_frame(row):
            yield row


def bodies_of_frames(judge: Judge, bodies: Choice = none) -> Choice:
    """Selects the bodies that the judge of frames needs, and `bodies`."""

    def needed(row: Row) -> bool:
        return bodies(row) or judge.frame_needs_body(row)

    return needed


def bodies_of_exchanges(judge: Judge, *, brief: bool = False) -> Choice:
    """Selects the bodies that pairing and the judge of exchanges need. `brief`: as of `exchanges`."""

    def needed(row: Row) -> bool:
        if row[c.KIND] == c.RESPONSE:
            return answered(row) is None or judge.needs_body(row)
        return (not brief and row[c.API_KEY] in LONG_POLLS) or judge.needs_body(row)

    return needed


def exchanges(
    folder: Place,
    judge: Judge,
    node: Node,
    *,
    brief: bool = False,
    bodies: Choice = none,
    most: int = DEFAULT_BUDGET,
) -> Iterator[Pair]:
    """The exchanges that pass, in the order in which they end; those without an end come last.

    Args:
        brief: nothing is wanted but fields of filters: the rows have OF_FIELDS, and no request is opened for the
            longest wait that it allows.
        bodies: selects the rows that keep their bytes.
    Errors: OverBudget; the errors of `rows`.
    """
    since_ns, until_ns = between(node)
    of_judge = bodies_of_exchanges(judge, brief=brief)

    def needed(row: Row) -> bool:
        return bodies(row) or of_judge(row)

    heads = OF_FIELDS if brief else HEADS
    found = rows(folder, rows_of_exchanges(node), bodies=needed, most=most, by=judge.by_file, heads=heads)
    in_time = (row for row in found if was_asked_within(row, since_ns, until_ns))
    for pair in pairs(in_time, most=most, with_bodies=bodies is not none, read=judge.side):
        if judge.passes(pair):
            yield pair


def was_asked_within(row: Row, since_ns: int | None, until_ns: int | None) -> bool:
    """False for a response to a request that is not wanted: no request of its exchange will be among the rows."""
    if row[c.KIND] != c.RESPONSE:
        return True
    at = asked_at(row)
    return (since_ns is None or at >= since_ns - _SLACK_NS) and (until_ns is None or at <= until_ns + _SLACK_NS)
