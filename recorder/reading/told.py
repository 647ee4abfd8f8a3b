"""What other frames of a capture tell: the names of topics' ids, the software of connections. Read once, if asked for.

A topic's id never changes its name, so a later answer also serves earlier frames.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

from proxy.wire import keys
from proxy.wire.budget import DEFAULT_BUDGET, Budget
from proxy.wire.errors import OverBudget, in_bytes
from recorder.capture import frames as c
from recorder.capture.reader import Row, files
from recorder.capture.remote import Place
from recorder.facts.frame import RESPONSE, Unreadable, opened
from recorder.facts.names import ANSWERED_NAMES
from recorder.facts.names import read as read_names
from recorder.facts.rows import frame_of
from recorder.query.columns import Rows
from recorder.reading.elements import Told
from recorder.reading.known import NO_FACTS, Known
from recorder.reading.rows import rows

# bytes of memory of a name
_NAME_SIZE = 500


def rows_that_tell(*, topics: bool, software: bool) -> Rows:
    """The frames that tell names of topics, or software."""
    import pyarrow.dataset as ds

    naming = [key for selector in ANSWERED_NAMES.selectors for key in selector.api_keys or ()] if topics else []
    wanted = (ds.field(c.KIND) == c.RESPONSE) & ds.field(c.API_KEY).isin(naming)
    if software:
        wanted |= (ds.field(c.KIND) == c.REQUEST) & (ds.field(c.API_KEY) == keys.API_VERSIONS)
    return Rows(wanted & (ds.field(c.DIALECT) == c.KAFKA))


def told(folder: Place, *, topics: bool, software: bool, known: Known = NO_FACTS, most: int = DEFAULT_BUDGET) -> Told:
    """What a capture tells, by facts or by its frames. Errors: OverBudget, and those of `rows`."""
    found = Told()
    asked = rows_that_tell(topics=topics, software=software)
    every = files(folder)
    if not any(map(known.has, every)):
        _learn_all(found, rows(folder, asked, bodies=has_body, most=most), most)
        return found
    # in the order of the log: what a connection says last counts
    for file in every:
        named, libraries = known.names(file) if topics else {}, known.software(file) if software else {}
        if named is None or libraries is None:
            _learn_all(found, rows([file], asked, bodies=has_body, most=most), most)
        else:
            found.topics.update(named)
            found.software.update(libraries)
            _check(found, most)
    return found


def _learn_all(found: Told, told: Iterable[Row], most: int) -> None:
    for row in told:
        learn(found, row, most)


def _check(found: Told, most: int) -> None:
    if (len(found.topics) + len(found.software)) * _NAME_SIZE > most:
        raise OverBudget(f"keeping names makes more than {in_bytes(most)}")


def has_body(row: Row) -> bool:
    """Selects the bodies that the capture has whole."""
    return not row[c.OMITTED]


def learn(found: Told, row: Row, most: int) -> None:
    """Adds what a frame tells; its row holds its bytes. Errors: OverBudget."""
    if row[c.FRAME] is None:
        return
    with suppress(Unreadable):
        _add(found, row, Budget(most))
    _check(found, most)


def _add(found: Told, row: Row, budget: Budget) -> None:
    frame = frame_of(row)
    if row[c.KIND] == RESPONSE:
        for group in read_names(frame, budget):
            found.topics.update({topic_id: name for name, topic_id in group.rows if name})
        return
    values = opened(frame, budget)
    # a client asks again in version 0, without a name, if the broker is too old for its first question
    if name := values.get("client_software_name"):
        found.software[row[c.SESSION], row[c.CONNECTION]] = name, values.get("client_software_version") or None
