"""Labels whose values peers choose: so many at most, then `other`; cut if long; dropped while nobody names them."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from recorder.reading.elements import Told

# what further values count as: `proxy.metrics.table.OTHER`
OTHER = "other"
# what stands for a value that nobody has told
UNKNOWN = ""
# a topic's name is no longer; client ids may have 32 KiB
LONGEST = 249
# seconds without a word of a value until it makes room
IDLE_SECONDS = 3600.0

Name = TypeVar("Name", bound=Hashable)
Row = TypeVar("Row")


def cut(text: str) -> str:
    """A label's text: no longer than LONGEST characters."""
    return text if len(text) <= LONGEST else text[: LONGEST - 3] + "..."


def topic_name(told: Told, topic: str | None, topic_id: str | None) -> str:
    """The topic's label: its name; its id where nobody has told the name."""
    return cut(topic or told.topics.get(topic_id or "") or topic_id or UNKNOWN)


class Labelled(Generic[Name, Row]):
    """Rows of counters by the values of labels.

    A counter that began anew each time its value found a place again would tell nothing: so further values count as
    `other` until one was idle for IDLE_SECONDS. (Rows that tell a state are a `Bounded`.)

    Args:
        most: how many rows there are at most, without that of `other`.
        make: makes an empty row.
        other: the values that stand for all further ones.

    Attributes:
        rows: by value.
        overflow: how often a value was named that found no place.
    """

    def __init__(self, most: int, make: Callable[[], Row], other: Name) -> None:
        self.rows: dict[Name, Row] = {}
        self.overflow = 0
        self._most, self._make, self._other = most, make, other
        self._named_at: dict[Name, float] = {}

    def at(self, name: Name, now: float) -> Row:
        """The row of a value, or that of `other`. `now`: seconds, of any clock."""
        found = self.rows.get(name)
        if found is None:
            if len(self._named_at) >= self._most:
                self.overflow += 1
                return self.rows.setdefault(self._other, self._make())
            found = self.rows[name] = self._make()
        self._named_at[name] = now
        return found

    def forget_idle(self, now: float) -> None:
        """Drops the rows of values that nobody has named for long."""
        for name in [name for name, at in self._named_at.items() if now - at > IDLE_SECONDS]:
            del self.rows[name], self._named_at[name]
