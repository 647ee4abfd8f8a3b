"""Makes the rows of the table `events`: connections that open, log in and end; gaps; nodes; clusters;
steps of the clock; what is in force.

Used by `assembly`.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from itertools import islice
from types import MappingProxyType
from typing import Any

from proxy.conversation.exchange import Exchange
from recorder.capture import frames as c
from recorder.capture.closed_connections import MissedConnections
from recorder.capture.connection_state import ConnectionState
from recorder.capture.gap import lost_by_api
from recorder.capture.rows import RowSink
from recorder.capture.spool import short_name

# exchanges that the row of a closed connection lists; further ones are only counted
MAX_NAMED = 1000


class Events:
    """Adds rows of events to `sink`. `clock_offset_ns`: wall clock minus monotonic clock."""

    def __init__(self, sink: RowSink, clock_offset_ns: int) -> None:
        self.sink = sink
        self.clock_offset_ns = clock_offset_ns

    def session(self, cause: str, mono_ns: int, detail: dict[str, Any]) -> None:
        """Adds the beginning or the end of the session. `cause`: "started", ENDED or DIED."""
        self._add(c.EVENT_SESSION, None, mono_ns, detail, cause=cause)

    def opened(self, conn: ConnectionState, mono_ns: int) -> None:
        """Adds the opening of a connection."""
        self._add(c.EVENT_OPENED, conn, mono_ns, conn.opening)

    def login(self, conn: ConnectionState, mono_ns: int, fields: dict[str, Any]) -> None:
        """Adds a step of a login. `fields`: those of the LOGIN entry, and the sender of the frame (`by`)."""
        self._add(c.EVENT_LOGIN, conn, mono_ns, fields)

    def half_closed(self, conn: ConnectionState, mono_ns: int, direction: int) -> None:
        """Adds the end of one direction's stream."""
        self._add(c.EVENT_HALF_CLOSED, conn, mono_ns, {"by": c.BY_BROKER if direction else c.BY_CLIENT})

    def closed(
        self,
        conn: ConnectionState,
        mono_ns: int,
        cause: str,
        frames: int | None,
        size: int | None,
        open_exchanges: Collection[Exchange],
        decision: Mapping[str, str | int] = MappingProxyType({}),
    ) -> None:
        """Adds the end of a connection.

        `frames`, `size`: all that passed, recorded or lost; None: unknown. `open_exchanges`: those without response.
        `decision`: what the proxy saw, if it ended the connection itself.
        """
        listed = [
            {"exchange": exchange.number, "api": exchange.api, "correlation_id": exchange.correlation_id}
            for exchange in islice(open_exchanges, MAX_NAMED)
        ]
        detail: dict[str, Any] = {"open": len(open_exchanges), "exchanges": listed}
        if decision:
            short = {name: short_name(value) if isinstance(value, str) else value for name, value in decision.items()}
            detail["decision"] = short
        self._add(c.EVENT_CLOSED, conn, mono_ns, detail, cause=cause, frames=frames, size=size)

    def gap(
        self,
        conn: ConnectionState,
        mono_ns: int,
        sequence: int | None,
        end: int | None,
        account: dict[str, Any] | None,
    ) -> None:
        """Adds the gap in a connection's record; nothing if its record is not broken off.

        Args:
            sequence: the number of the first frame after the gap; None if unknown.
            end: the sum of both directions' stream offsets at the end of the gap; None if unknown.
            account: the tap's account of the gap; None if it is lost.
        """
        broken = conn.broken
        if broken is None:
            return
        # `behind`: the bytes of both directions before the gap; None if the compactor's state was lost
        is_known = broken["behind"] is not None
        frames = max(sequence - conn.sequence, 0) if sequence is not None and is_known else None
        lost = {}
        if frames is not None and account is not None:
            lost = lost_by_api(account, broken, frames)
            if not account.get("counted", True):
                frames = None
        size = max(end - broken["behind"], 0) if end is not None and is_known else None
        if broken["reason"] == c.GAP_KEY and not frames and size == 0:
            # nothing came before the key was lost that had not become rows
            return
        self._add(
            c.EVENT_GAP,
            conn,
            broken["since_ns"],
            {"until_mono_ns": mono_ns, "lost": lost},
            cause=broken["reason"],
            frames=frames,
            size=size,
        )

    def connections_lost(self, mono_ns: int, cause: str, missed: MissedConnections, ended: Sequence[int] = ()) -> None:
        """Adds a gap of whole connections.

        `ended`: further connections, whose rows end early; the frames and bytes of `missed` include their lost ends.
        """
        detail: dict[str, Any] = {"connections": missed.connections}
        if ended:
            detail["ends_of"] = list(ended)
        self._add(c.EVENT_GAP, None, mono_ns, detail, cause=cause, frames=missed.frames, size=missed.bytes)

    def log_lost(self, mono_ns: int, detail: dict[str, Any]) -> None:
        """Adds the loss of a part of the log, named in `detail`. The connections' own gaps count the lost frames."""
        self._add(c.EVENT_GAP, None, mono_ns, detail, cause=c.GAP_DAMAGE)

    def removed(self, mono_ns: int, reason: str, files: int, size: int, until_ns: int) -> None:
        """Adds a removal of older files. `until_ns`: the time of their newest row, in ns since 1970."""
        self._add(c.EVENT_REMOVED, None, mono_ns, {"files": files, "until_ns": until_ns}, cause=reason, size=size)

    def clock(self, mono_ns: int, moved_ns: int) -> None:
        """Adds a step of the wall clock by `moved_ns`."""
        self._add(c.EVENT_CLOCK, None, mono_ns, {"moved_ns": moved_ns})

    def node(self, mono_ns: int, fields: dict[str, Any]) -> None:
        """Adds a broker's node that was found or has moved. `fields`: those of the NODE entry."""
        self._add(c.EVENT_NODE, None, mono_ns, fields, cluster=fields.get("cluster"))

    def cluster(self, hour: int, mono_ns: int, fields: dict[str, Any]) -> None:
        """Adds what a cluster can be known by, at the moment of an hour next to `mono_ns`.

        `fields`: those of a CLUSTER entry.
        """
        detail = {kind: value for kind, value in fields.items() if kind != "cluster"}
        self._add(c.EVENT_CLUSTER, None, self._within(hour, mono_ns), detail, cluster=fields["cluster"])

    def settings(self, mono_ns: int, fields: dict[str, Any], changed: Sequence[str] | None) -> None:
        """Adds what is in force from now on. `changed`: the keys that have changed; None: the session begins."""
        if changed is None:
            self._add(c.EVENT_SETTINGS, None, mono_ns, fields, cause=c.SETTINGS_STARTED)
        else:
            detail = {**fields, c.CHANGED: list(changed)}
            self._add(c.EVENT_SETTINGS, None, mono_ns, detail, cause=c.SETTINGS_CHANGED)

    def in_force(self, hour: int, mono_ns: int, fields: dict[str, Any]) -> None:
        """Repeats what is in force, at the moment of an hour next to `mono_ns`. `fields`: those of a SETTINGS entry."""
        self._add(c.EVENT_SETTINGS, None, self._within(hour, mono_ns), fields)

    def _within(self, hour: int, mono_ns: int) -> int:
        """The moment of an hour next to `mono_ns`."""
        first = hour * c.HOUR_NS - self.clock_offset_ns
        return min(max(mono_ns, first), first + c.HOUR_NS - 1)

    def _add(
        self,
        kind: str,
        conn: ConnectionState | None,
        mono_ns: int,
        detail: dict[str, Any],
        *,
        cause: str | None = None,
        frames: int | None = None,
        size: int | None = None,
        cluster: str | None = None,
    ) -> None:
        rows = self.sink.event_rows(mono_ns + self.clock_offset_ns)
        connection = None
        if conn is not None:
            connection, cluster = conn.connection, conn.opening.get("cluster")
        rows.add(
            kind,
            connection,
            mono_ns,
            self.clock_offset_ns,
            cause=cause,
            frames=frames,
            size=size,
            detail=json.dumps(detail),
            cluster=cluster,
        )
