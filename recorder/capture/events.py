"""The rows of `events`, a table of a capture: connections that open, log in and end, gaps, nodes, clock steps."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from itertools import islice
from typing import Any

from proxy.conversation.exchange import Exchange
from recorder.capture import frames as c
from recorder.capture.connection_state import ConnectionState
from recorder.capture.gap import lost_by_api
from recorder.capture.ledger import Missed
from recorder.capture.rows import RowSink

# open exchanges that the row of a closed connection names; further ones are only counted
MAX_NAMED = 1000


class Events:
    """Adds rows of events. `clock_ns` plus a monotonic time is the time of day."""

    def __init__(self, sink: RowSink, clock_ns: int) -> None:
        self.sink = sink
        self.clock_ns = clock_ns

    def session(self, cause: str, mono_ns: int, detail: dict[str, Any]) -> None:
        self._add(c.EVENT_SESSION, None, mono_ns, detail, cause=cause)

    def opened(self, track: ConnectionState, mono_ns: int) -> None:
        self._add(c.EVENT_OPENED, track, mono_ns, track.facts)

    def login(self, track: ConnectionState, mono_ns: int, facts: dict[str, Any]) -> None:
        self._add(c.EVENT_LOGIN, track, mono_ns, facts)

    def half_closed(self, track: ConnectionState, mono_ns: int, direction: int) -> None:
        """Adds the end of one direction's stream. `direction`: a `Direction`."""
        self._add(c.EVENT_HALF_CLOSED, track, mono_ns, {"by": c.BY_BROKER if direction else c.BY_CLIENT})

    def closed(
        self,
        track: ConnectionState,
        mono_ns: int,
        cause: str,
        frames: int | None,
        size: int | None,
        open_exchanges: Collection[Exchange],
    ) -> None:
        """Adds the end of a connection. `frames`, `size`: all that passed on it, recorded or lost; None if unknown."""
        named = [
            {"exchange": exchange.number, "api": exchange.api, "correlation_id": exchange.correlation_id}
            for exchange in islice(open_exchanges, MAX_NAMED)
        ]
        detail = {"open": len(open_exchanges), "exchanges": named}
        self._add(c.EVENT_CLOSED, track, mono_ns, detail, cause=cause, frames=frames, size=size)

    def gap(
        self,
        track: ConnectionState,
        mono_ns: int,
        sequence: int | None,
        end: int | None,
        account: dict[str, Any] | None,
    ) -> None:
        """Adds the gap in a connection's record; nothing if the record has none.

        Args:
            sequence: the number of the first frame after the gap; None if unknown.
            end: the bytes of both directions up to the end of the gap; None if unknown.
            account: the tap's counts of the frames that ended in the gap; None if they are lost.
        """
        broken = track.broken
        if broken is None:
            return
        # `behind`: the bytes of both directions before the gap; None if they were lost with the compactor's state
        is_known = broken["behind"] is not None
        frames = max(sequence - track.sequence, 0) if sequence is not None and is_known else None
        lost = {}
        if frames is not None and account is not None:
            lost = lost_by_api(account, broken, frames)
        self._add(
            c.EVENT_GAP,
            track,
            broken["since_ns"],
            {"until_mono_ns": mono_ns, "lost": lost},
            cause=broken["reason"],
            frames=frames,
            size=max(end - broken["behind"], 0) if end is not None and is_known else None,
        )

    def connections_lost(self, mono_ns: int, cause: str, missed: Missed, ended: Sequence[int] = ()) -> None:
        """Adds a gap of whole connections. `ended`: recorded connections whose last, lost frames it also counts."""
        detail: dict[str, Any] = {"connections": missed.connections}
        if ended:
            detail["ends_of"] = list(ended)
        self._add(c.EVENT_GAP, None, mono_ns, detail, cause=cause, frames=missed.frames, size=missed.bytes)

    def log_lost(self, mono_ns: int, detail: dict[str, Any]) -> None:
        """Adds the loss of the part of the log that `detail` names. Gaps of connections say which frames were in it."""
        self._add(c.EVENT_GAP, None, mono_ns, detail, cause=c.GAP_DAMAGE)

    def clock(self, mono_ns: int, moved_ns: int) -> None:
        """Adds a step of the wall clock."""
        self._add(c.EVENT_CLOCK, None, mono_ns, {"moved_ns": moved_ns})

    def node(self, mono_ns: int, facts: dict[str, Any]) -> None:
        self._add(c.EVENT_NODE, None, mono_ns, facts, cluster=facts.get("cluster"))

    def _add(
        self,
        kind: str,
        track: ConnectionState | None,
        mono_ns: int,
        detail: dict[str, Any],
        *,
        cause: str | None = None,
        frames: int | None = None,
        size: int | None = None,
        cluster: str | None = None,
    ) -> None:
        rows = self.sink.events(mono_ns + self.clock_ns)
        connection = None
        if track is not None:
            connection, cluster = track.connection, track.facts.get("cluster")
        rows.add(
            kind,
            connection,
            mono_ns,
            self.clock_ns,
            cause=cause,
            frames=frames,
            size=size,
            detail=json.dumps(detail),
            cluster=cluster,
        )
