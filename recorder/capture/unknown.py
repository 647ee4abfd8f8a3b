"""Connections whose opening is lost, until a checkpoint tells it.

A log may name many that never say more: what is kept of each is little, and as many are kept as a proxy may have open.
For the time of an entry, or of its end, such a connection is a track like any other.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from recorder.capture.connection_state import ConnectionState
from recorder.capture.frames import GAP_DAMAGE


class _Unknown(NamedTuple):
    """What its track is made of."""

    next_entry: int
    since_ns: int
    is_new: bool
    reached: tuple[int, int] | None


class Unknown:
    """All of them, by number."""

    def __init__(self) -> None:
        self._known: dict[int, _Unknown] = {}

    def __len__(self) -> int:
        return len(self._known)

    def __iter__(self) -> Iterator[int]:
        return iter(self._known)

    def __contains__(self, connection: int) -> bool:
        return connection in self._known

    def clear(self) -> None:
        """Forgets them."""
        self._known.clear()

    def meet(self, connection: int, next_entry: int, since_ns: int, *, is_new: bool) -> None:
        """One that nothing has been heard of. `is_new`: nothing of it has been recorded before, or nobody knows."""
        self._known[connection] = _Unknown(next_entry, since_ns, is_new, None)

    def goes_on(self, connection: int, next_entry: int) -> None:
        """The next entry of it will have this number."""
        self._known[connection] = self._known[connection]._replace(next_entry=next_entry)

    def take(self, connection: int) -> ConnectionState:
        """Its track; it is forgotten here."""
        found = self._known.pop(connection)
        track = ConnectionState.of_unknown(connection, found.since_ns, is_new=found.is_new)
        track.next_entry = found.next_entry
        track.reached = None if found.reached is None else [*found.reached]
        return track

    def keep(self, track: ConnectionState) -> bool:
        """Takes a track of which still nothing is known; False: something is."""
        broken = track.broken
        if track.talk is not None or track.facts or track.sequence or broken is None:
            return False
        if broken["behind"] or broken["reason"] != GAP_DAMAGE:
            return False
        reached = None if track.reached is None else (track.reached[0], track.reached[1])
        is_new = broken["behind"] is not None
        self._known[track.connection] = _Unknown(track.next_entry, broken["since_ns"], is_new, reached)
        return True
