"""Where a capture was recorded: the ids of its clusters, and the addresses of their brokers and of the recording.

A replay must never write there. Events of the kind `cluster` tell everything. Captures of earlier versions lack them,
and so may a part of a capture that was copied; then events of nodes and connections, the frames' listeners, and the
answers that name brokers or the cluster's id (`survey`) tell some of it. Clusters that are not played count, too.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from proxy.schema.addresses import Address
from proxy.wire.keys import DESCRIBE_CLUSTER, FIND_COORDINATOR, METADATA, PRODUCE
from recorder.capture import frames as c
from recorder.capture.frames import DamagedFileError
from recorder.capture.reader import CaptureFile, files, row_groups

# the fields of answers that list brokers; "": the answer itself
_LISTS = {
    METADATA: ("brokers",),
    DESCRIBE_CLUSTER: ("brokers",),
    FIND_COORDINATOR: ("coordinators", ""),
    PRODUCE: ("node_endpoints",),
}
TELLS_BROKERS = frozenset(_LISTS)
# one address is written of a listener or a broker that nobody knows
_UNKNOWN = "unknown"

# a session, and the name of one of its clusters
Part = tuple[str, str | None]


@dataclass(slots=True)
class Recorded:
    """The recorded clusters, and the listeners before them.

    Attributes:
        ids: as brokers told them, by session and cluster.
        addresses: of brokers and listeners, as named and as resolved.
        played: sessions, with a cluster's name, of which requests are played.
    """

    ids: dict[Part, set[str]] = field(default_factory=dict)
    addresses: set[Address] = field(default_factory=set)
    played: set[Part] = field(default_factory=set)

    @property
    def cluster_ids(self) -> set[str]:
        """The ids of all clusters."""
        return {each for ids in self.ids.values() for each in ids}

    @property
    def without_id(self) -> list[str]:
        """The sessions that are played and that don't tell their cluster's id."""
        return sorted({session for session, cluster in self.played - self.ids.keys()})

    def add_ids(self, part: Part, ids: Iterable[object]) -> None:
        """Adds ids of a session's cluster."""
        if found := {each for each in ids if isinstance(each, str) and each}:
            self.ids.setdefault(part, set()).update(found)

    def add_addresses(self, *texts: object) -> None:
        """Adds addresses as they are written in events."""
        for text in texts:
            if isinstance(text, str) and text != _UNKNOWN:
                try:
                    self.addresses.add(Address.parse(text))
                except ValueError:
                    continue

    def add_answer(self, part: Part, api_key: int, answer: dict[str, Any]) -> None:
        """Adds what an answer tells: the cluster's id, and brokers."""
        if api_key in (METADATA, DESCRIBE_CLUSTER):
            self.add_ids(part, [answer.get("cluster_id")])
        for name in _LISTS.get(api_key, ()):
            for broker in (answer.get(name) or ()) if name else (answer,):
                if broker.get("host"):
                    self.addresses.add(Address(broker["host"], broker["port"]))


def recorded(folder: Path, sessions: Sequence[str] = ()) -> Recorded:
    """What the events of a capture tell, those of all its sessions; where a session has none, what its frames tell.

    Args:
        sessions: beginnings of the names of the sessions that are played; none: all. Files of others may be damaged.

    Errors: DamagedFileError, UnknownFormatError, OverBudget.
    """
    found, told = Recorded(), set[str]()
    for file in files(folder, c.EVENTS_FOLDER):
        for session, cluster, kind, detail in _rows(file, (c.SESSION, c.CLUSTER, c.KIND, c.DETAIL), sessions):
            facts = facts_of(detail)
            if kind == c.EVENT_CLUSTER:
                told.add(session)
                found.add_ids((session, cluster), _list(facts, c.CLUSTER_IDS))
                found.add_addresses(*_list(facts, c.UPSTREAMS), *_list(facts, c.LISTENERS))
            elif kind in (c.EVENT_NODE, c.EVENT_OPENED):
                found.add_addresses(facts.get("upstream"), facts.get("listener"))
    for file in files(folder):
        if file.session not in told:
            found.add_addresses(*{listener for (listener,) in _rows(file, (c.LISTENER,), sessions)})
    return found


def _rows(file: CaptureFile, columns: Sequence[str], sessions: Sequence[str]) -> Iterator[tuple[Any, ...]]:
    try:
        for table in row_groups(file, columns):
            yield from zip(*(table[name].to_pylist() for name in columns), strict=True)
    except DamagedFileError:
        if not sessions or file.session.startswith(tuple(sessions)):
            raise


def facts_of(detail: str | None) -> dict[str, Any]:
    """The details of an event; none if they can't be read."""
    try:
        found = json.loads(detail or "{}")
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _list(facts: dict[str, Any], name: str) -> list[Any]:
    found = facts.get(name)
    return found if isinstance(found, list) else []
