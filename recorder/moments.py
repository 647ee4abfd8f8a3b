"""The notations of times in filters: a moment, a time of the last day, a duration before the last frame.

    2026-11-21T13:48      a moment; UTC unless it says otherwise, here and below
    13:48                 that time on the day of the capture's last frame
    -5m                   five minutes before the capture's last frame

A capture is often read long after its recording, so its last frame stands for "now".
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, time, timedelta
from typing import NamedTuple

from proxy.units import read_time

# The range of a column of nanoseconds, years 1677 to 2262. Any moment beyond is before or after all frames.
FIRST_NS, LAST_NS = -(1 << 63), (1 << 63) - 1
SECOND_NS = 10**9
EPOCH = datetime.fromtimestamp(0, UTC)


class Moment(NamedTuple):
    """A moment; exactly one of the three is set: ns since 1970, a time of day, or ns before the last frame."""

    ns: int | None = None
    of_day: time | None = None
    back_ns: int | None = None

    def resolved(self, last_ns: Callable[[], int]) -> int:
        """Ns since 1970. `last_ns`: returns the last frame's time; called only if needed."""
        if self.ns is not None:
            return self.ns
        if self.back_ns is not None:
            return max(last_ns() - self.back_ns, FIRST_NS)
        assert self.of_day is not None
        zone = self.of_day.tzinfo or UTC
        day = datetime.fromtimestamp(last_ns() // SECOND_NS, zone).date()
        return _since_epoch(datetime.combine(day, self.of_day, zone))


def read(text: str) -> Moment:
    """The moment in a text. Raises ValueError if the text is in none of the three notations."""
    back = read_time(text[1:]) if text.startswith("-") and text[-1].isalpha() else None
    if back is not None:
        return Moment(back_ns=min(round(min(back, LAST_NS) * SECOND_NS), LAST_NS))
    if ":" in text and "-" not in text[:5]:
        return Moment(of_day=time.fromisoformat(text))
    when = datetime.fromisoformat(text)
    return Moment(ns=_since_epoch(when if when.tzinfo else when.replace(tzinfo=UTC)))


def written(ns: int) -> str:
    """Ns since 1970 as a user would type it, in UTC and to the microsecond."""
    when = EPOCH + timedelta(microseconds=ns // 1000)
    return when.replace(tzinfo=None).isoformat()


def _since_epoch(when: datetime) -> int:
    since = when - EPOCH
    whole = (since.days * 86400 + since.seconds) * SECOND_NS + since.microseconds * 1000
    return min(max(whole, FIRST_NS), LAST_NS)


# right notations, for the sentence about a wrong one
RIGHT = "2026-11-21T13:48 (UTC), 13:48 or -5m"
