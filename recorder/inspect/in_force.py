"""What a capture's sessions tell of themselves and of their clusters: settings, versions; nodes with racks, features.

Used by `summary`. The newest word of each session and cluster counts. What a capture does not tell, as older ones do
not, is not shown.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from recorder.capture import frames as c
from recorder.inspect.details import detail, texts

Row = dict[str, Any]
# Lines of a table; JSON has all.
MAX_LINES = 20
# bytes of memory of a setting, a node or a feature as Python values
VALUE_COST = 400


class InForce:
    """What was told last. `cost`: the bytes of memory that it takes."""

    def __init__(self) -> None:
        # session -> the detail of its newest event, and how often settings have changed
        self.sessions: dict[str, Row] = {}
        self.changes: dict[str, int] = {}
        self.clusters: dict[str, Row] = {}
        self._at_ns: dict[tuple[str, str], int] = {}

    def add_events(self, events: Iterable[Row]) -> None:
        """Adds rows of `events`."""
        for event in events:
            if event[c.KIND] == c.EVENT_SETTINGS:
                session = event[c.SESSION]
                if event[c.CAUSE] == c.SETTINGS_CHANGED:
                    self.changes[session] = self.changes.get(session, 0) + 1
                self._take(self.sessions, event, session)
            elif event[c.KIND] == c.EVENT_CLUSTER:
                self._take(self.clusters, event, event[c.CLUSTER] or "")

    @property
    def cost(self) -> int:
        """Bytes of memory, about."""
        told = [*self.sessions.values(), *self.clusters.values()]
        return VALUE_COST * sum(len(value) for one in told for value in one.values() if isinstance(value, dict | list))

    def _take(self, known: dict[str, Row], event: Row, name: str) -> None:
        place = event[c.KIND], name
        if event[c.AT_NS] >= self._at_ns.get(place, event[c.AT_NS]):
            self._at_ns[place] = event[c.AT_NS]
            known[name] = detail(event)

    def of_session(self, session: str) -> Row:
        """The keys of a session in JSON; {}: it tells nothing."""
        told = self.sessions.get(session)
        if told is None:
            return {}
        changes = self.changes.get(session, 0)
        return {c.SETTINGS: told.get(c.SETTINGS), c.VERSIONS: told.get(c.VERSIONS), "settings_changed": changes}

    def clusters_as_json(self) -> list[Row]:
        """What each cluster is known by, and what brokers told of it."""
        keys = (c.CLUSTER_IDS, c.NODES, c.FEATURES)
        return [
            {c.CLUSTER: name} | {key: told[key] for key in keys if key in told}
            for name, told in sorted(self.clusters.items())
        ]

    def session_lines(self) -> list[tuple[str, ...]]:
        """A line for each session: its name, the versions of program and Python, how many settings it tells."""
        return [
            (session, *(versions.get(name, "") for name in ("kafka-wiretap", "python")), *_counts(told, changes))
            for session, told in sorted(self.sessions.items())[:MAX_LINES]
            for versions, changes in [(texts(told.get(c.VERSIONS)), self.changes.get(session, 0))]
        ]

    def node_lines(self) -> list[tuple[str, ...]]:
        """A line for each node that brokers named: cluster, its id, node, address, rack."""
        lines: list[tuple[str, ...]] = [
            (name, ids, str(node.get("node_id")), f"{node.get('host')}:{node.get('port')}", str(node.get("rack") or ""))
            for name, told in sorted(self.clusters.items())
            for ids in [", ".join(map(str, _list(told.get(c.CLUSTER_IDS))))]
            for node in _list(told.get(c.NODES))
            if isinstance(node, dict)
        ]
        return lines[:MAX_LINES]


def _counts(told: Row, changes: int) -> tuple[str, ...]:
    settings = told.get(c.SETTINGS)
    return (str(len(settings)) if isinstance(settings, dict) else "not told", str(changes))


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
