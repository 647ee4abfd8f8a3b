"""What other frames of a capture tell: the names of topics' ids, the software of connections. Read once, if asked for.

A topic's id never changes its name, so a later answer also serves earlier frames.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field

from proxy.wire import keys
from proxy.wire.budget import DEFAULT_BUDGET, Budget
from proxy.wire.errors import OverBudget, in_bytes
from recorder.capture import frames as c
from recorder.capture.reader import Row
from recorder.capture.remote import Place
from recorder.facts.frame import RESPONSE, Unreadable, opened
from recorder.facts.names import ANSWERED_NAMES
from recorder.facts.names import read as read_names
from recorder.facts.rows import frame_of
from recorder.query.columns import Rows
from recorder.reading.rows import rows

# bytes of memory of a name
_NAME_SIZE = 500


@dataclass(slots=True)
class Told:
    """Topics' names by their ids as Kafka prints them; library and version by session and connection."""

    topics: dict[str, str] = field(default_factory=dict)
    software: dict[tuple[str, int], tuple[str | None, str | None]] = field(default_factory=dict)


def rows_that_tell(*, topics: bool, software: bool) -> Rows:
    """The frames that tell names of topics, or software."""
    import pyarrow.dataset as ds

    naming = [key for selector in ANSWERED_NAMES.selectors for key in selector.api_keys or ()] if topics else []
    wanted = (ds.field(c.KIND) == c.RESPONSE) & ds.field(c.API_KEY).isin(naming)
    if software:
        wanted |= (ds.field(c.KIND) == c.REQUEST) & (ds.field(c.API_KEY) == keys.API_VERSIONS)
    return Rows(wanted & (ds.field(c.DIALECT) == c.KAFKA))


def told(folder: Place, *, topics: bool, software: bool, most: int = DEFAULT_BUDGET) -> Told:
    """What the frames of a capture tell. Errors: OverBudget, and those of `rows`."""
    found = Told()
    for row in rows(folder, rows_that_tell(topics=topics, software=software), bodies=has_body, most=most):
        learn(found, row, most)
    return found


def has_body(row: Row) -> bool:
    """Selects the bodies that the capture has whole."""
    return not row[c.OMITTED]


def learn(found: Told, row: Row, most: int) -> None:
    """Adds what a frame tells; its row holds its bytes. Errors: OverBudget."""
    if row[c.FRAME] is None:
        return
    with suppress(Unreadable):
        _add(found, row, Budget(most))
    if (len(found.topics) + len(found.software)) * _NAME_SIZE > most:
        raise OverBudget(f"keeping names makes more than {in_bytes(most)}")


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
