"""Connections whose opening is lost, until a checkpoint tells its facts.

A log may name many connections without any further entry, so little is kept of each. While one of its entries is
processed, such a connection is a track like any other.
"""

from __future__ import annotations

from typing import NamedTuple

from recorder.capture.connection_state import ConnectionState
from recorder.capture.frames import GAP_DAMAGE


class _Connection(NamedTuple):
    """The values that its track is made of."""

    next_entry: int
    since_ns: int
    is_new: bool
    reached: tuple[int, int] | None


class UnknownConnections(dict[int, _Connection]):
    """The unknown connections, by number."""

    def add(self, connection: int, next_entry: int, since_ns: int, *, is_new: bool) -> None:
        """Adds a connection without a track. `is_new`: True if no earlier part of it can have been recorded."""
        self[connection] = _Connection(next_entry, since_ns, is_new, None)

    def set_next_entry(self, connection: int, next_entry: int) -> None:
        """Sets the number of a connection's next entry."""
        self[connection] = self[connection]._replace(next_entry=next_entry)

    def pop_track(self, connection: int) -> ConnectionState:
        """Removes a connection; returns its track."""
        track = self.track(connection)
        del self[connection]
        return track

    def track(self, connection: int) -> ConnectionState:
        """The track of a connection."""
        found = self[connection]
        track = ConnectionState.of_unknown(connection, found.since_ns, is_new=found.is_new)
        track.next_entry = found.next_entry
        track.reached = None if found.reached is None else [*found.reached]
        return track

    def add_if_unknown(self, track: ConnectionState) -> bool:
        """Adds the connection of a track that has no facts yet; returns False for any other track."""
        broken = track.broken
        if track.conversation is not None or track.facts or track.sequence or broken is None:
            return False
        if broken["behind"] or broken["reason"] != GAP_DAMAGE:
            return False
        reached = None if track.reached is None else (track.reached[0], track.reached[1])
        is_new = broken["behind"] is not None
        self[track.connection] = _Connection(track.next_entry, broken["since_ns"], is_new, reached)
        return True
