"""Connections whose opening is lost, until a checkpoint repeats the opening.

Used by `assembly`. A log may name many connections of which it has no further entry, so only a few values are kept of
each. A connection becomes a `ConnectionState` while one of its entries is processed.
"""

from __future__ import annotations

from typing import NamedTuple

from recorder.capture.connection_state import ConnectionState
from recorder.capture.frames import GAP_DAMAGE


class _Connection(NamedTuple):
    """The values from which the `ConnectionState` is made.

    `reached`: the furthest stream offset seen in each direction since the record broke off; None: none.
    """

    next_entry: int
    since_ns: int
    is_new: bool
    reached: tuple[int, int] | None


class UnknownConnections(dict[int, _Connection]):
    """Number -> connection, for the connections whose opening is unknown."""

    def add(self, connection: int, next_entry: int, since_ns: int, *, is_new: bool) -> None:
        """Adds a connection. `since_ns`: when its gap begins; `is_new`: True if it can't have any row yet."""
        self[connection] = _Connection(next_entry, since_ns, is_new, None)

    def set_next_entry(self, connection: int, next_entry: int) -> None:
        """Sets the number of a connection's next entry."""
        self[connection] = self[connection]._replace(next_entry=next_entry)

    def pop_state(self, connection: int) -> ConnectionState:
        """Removes a connection; returns its state."""
        conn = self.state_of(connection)
        del self[connection]
        return conn

    def state_of(self, connection: int) -> ConnectionState:
        """The state of a connection."""
        known = self[connection]
        conn = ConnectionState.of_unknown(connection, known.since_ns, is_new=known.is_new)
        conn.next_entry = known.next_entry
        conn.reached = None if known.reached is None else [*known.reached]
        return conn

    def add_if_unknown(self, conn: ConnectionState) -> bool:
        """Adds a connection if only the values of `_Connection` are known of it; otherwise returns False."""
        broken = conn.broken
        if conn.conversation is not None or conn.opening or conn.sequence or broken is None:
            return False
        # `behind`: bytes recorded before the break. 0: none, so the connection is new. None: unknown. Above 0: more is
        # known than `_Connection` holds
        if broken["behind"] or broken["reason"] != GAP_DAMAGE:
            return False
        reached = None if conn.reached is None else (conn.reached[0], conn.reached[1])
        is_new = broken["behind"] is not None
        self[conn.connection] = _Connection(conn.next_entry, broken["since_ns"], is_new, reached)
        return True
