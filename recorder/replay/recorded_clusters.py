"""Where a capture was recorded: the ids of its clusters, and the addresses of their brokers and of the recording.

A replay must never write there. Events of the kind `cluster` tell everything. Captures of earlier versions lack them,
and so may a part of a capture that was copied; then events of nodes and connections, the frames' listeners, and the
answers that name brokers or the cluster's id (`survey`) tell some of it. Sessions and clusters that are not played
count, too. Sessions that are not compacted yet tell what their newest segment says.

Each hour's events tell again what a cluster is known by. So an id stands only for the hour and the segments of the
file that tells it; without any such event, an answer's id stands for its session.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from proxy.schema.addresses import Address
from proxy.wire import apis, catalog, marked, response_head
from proxy.wire.keys import DESCRIBE_CLUSTER, METADATA
from recorder.capture import entry_json, session
from recorder.capture import frames as c
from recorder.capture.frames import DamagedFileError
from recorder.capture.reader import CaptureFile, Listing, covers, listed, row_groups
from recorder.capture.remote import Place
from recorder.capture.segments import SegmentReader, segments
from recorder.capture.spool import EntryKind, short_name

# API key -> the first version whose answer has the cluster's id
_TELLS_ID = {METADATA: 2, DESCRIBE_CLUSTER: 0}
# one address is written of a listener or a broker that nobody knows
_UNKNOWN = "unknown"

# a session, and the name of one of its clusters
Part = tuple[str, str | None]


@cache
def _paths(api_key: int, version: int) -> tuple[str, ...]:
    """The fields of an answer that tell where it was recorded: each host with its port, and then the cluster's id."""
    tells_id = version >= _TELLS_ID.get(api_key, version + 1)
    return (*marked("response", api_key, version, "address"), *(["cluster_id"] if tells_id else []))


# the APIs whose answers name brokers or the cluster's id
TELLS_BROKERS = frozenset(key for key in apis.api_keys() if any(_paths(key, each) for each in apis.versions(key)))


@dataclass(slots=True)
class RecordedClusters:
    """The recorded clusters, and the listeners before them.

    Attributes:
        ids: as brokers told them, by session and cluster.
        addresses: of brokers and listeners, as named and as resolved, with the sessions that tell them.
        played: the sessions of which requests are played.
        told: the sessions that have events of clusters.
        frames: session and cluster of all frames, with the files.
        covered: session and cluster -> the files of events that tell of it; True for those that tell its ids.
        nameless: session and cluster where the proxy reached brokers that did not tell their id.
        unreadable: sessions of which something can't be read.
        running: session and cluster of those that are not compacted yet; None: no cluster is told.
        listing: the files that were looked at. No others may be played.
    """

    ids: dict[Part, set[str]] = field(default_factory=dict)
    addresses: dict[Address, set[str]] = field(default_factory=lambda: defaultdict(set))
    played: set[str] = field(default_factory=set)
    told: set[str] = field(default_factory=set)
    frames: dict[Part, list[CaptureFile]] = field(default_factory=lambda: defaultdict(list))
    covered: dict[Part, dict[CaptureFile, bool]] = field(default_factory=lambda: defaultdict(dict))
    nameless: set[Part] = field(default_factory=set)
    unreadable: set[str] = field(default_factory=set)
    running: set[Part] = field(default_factory=set)
    listing: Listing = field(default_factory=lambda: Listing([], []))

    def sessions_of(self, cluster_id: str | None) -> set[str]:
        """The sessions that were recorded at the cluster of this id."""
        return {session for (session, _), ids in self.ids.items() if short_name(cluster_id) in ids}

    @property
    def without_id(self) -> list[str]:
        """The sessions that don't tell the ids of all their clusters, for all their hours."""
        parts = {part for part, captured in self.frames.items() if not all(self._is_known(part, at) for at in captured)}
        unknown = {
            part
            for part in self.running
            if not any(ids and self._is_same(part, each) for each, ids in self.ids.items())
        }
        return sorted({session for session, _ in parts | unknown | self.nameless})

    def _is_known(self, part: Part, file: CaptureFile) -> bool:
        same = [each for each in self.ids.keys() | self.covered.keys() if self._is_same(part, each)]
        if part[0] not in self.told:
            return any(self.ids.get(each) for each in same)
        near = {
            at: tells_ids
            for each in same
            for at, tells_ids in self.covered.get(each, {}).items()
            if (at.date, at.hour) == (file.date, file.hour)
        }
        # a proxy may have recorded for some time before it had asked for the id; from then on each file tells it
        told = [near[at] for at in sorted(near, key=lambda at: at.first)]
        return any(told) and told == sorted(told) and covers(near, file)

    def _is_same(self, one: Part, other: Part) -> bool:
        """True for one cluster, also if rows leave its name out and the session has no other."""
        if one[0] != other[0] or one[1] == other[1]:
            return one == other
        parts = self.frames.keys() | self.ids.keys() | self.covered.keys()
        return None in (one[1], other[1]) and len({name for each, name in parts if each == one[0] and name}) <= 1

    def add_ids(self, part: Part, ids: Iterable[object], file: CaptureFile | None = None) -> None:
        """Adds ids of a session's cluster, if there are any. `file`: of events that tell of the cluster."""
        names = {short_name(each) for each in ids if isinstance(each, str)}
        found = {name for name in names if name}
        if found < names:
            self.nameless.add(part)
        self.ids.setdefault(part, set()).update(found)
        if file is not None:
            covered = self.covered[part]
            covered[file] = covered.get(file, False) or bool(found)

    def add_addresses(self, session: str, *texts: object) -> None:
        """Adds addresses as they are written in events of a session."""
        for text in texts:
            if isinstance(text, str) and text != _UNKNOWN:
                with suppress(ValueError):
                    self.addresses[Address.parse(text)].add(session)

    def add_known(self, part: Part, facts: dict[str, Any], file: CaptureFile | None = None) -> None:
        """Adds what an event, or the log, tells of a cluster."""
        self.add_ids(part, _list(facts, c.CLUSTER_IDS), file)
        self.add_addresses(part[0], *_list(facts, c.UPSTREAMS), *_list(facts, c.LISTENERS))

    def add_answer(self, part: Part, api_key: int, version: int, frame: bytes) -> None:
        """Adds what an answer tells: the cluster's id, and brokers. Errors: WireError."""
        codec, paths = catalog.codec_of_response(frame, api_key, version), _paths(api_key, version)
        if codec is None or not paths:
            return
        spans = codec.project(paths)(frame, response_head(frame, api_key, version).body)
        values = [[value for value, _, _ in spans.get(path, ())] for path in paths]
        if paths[-1] == "cluster_id":
            self.add_ids(part, values.pop())
        for hosts, ports in zip(values[::2], values[1::2], strict=True):
            for host, port in zip(hosts, ports, strict=True):
                if host:
                    self.addresses[Address(host, port)].add(part[0])


def recorded_clusters(folder: Place, sessions: Sequence[str] = ()) -> RecordedClusters:
    """What the events of a capture tell, those of all its sessions; where a session has none, what its frames tell.

    Args:
        sessions: beginnings of the names of the sessions that are played; none: all. Files of others may be damaged.

    Errors: DamagedFileError, UnknownFormatError, OverBudget; OSError if the spool can't be read.
    """
    found = RecordedClusters()
    if isinstance(folder, Path):
        # before the files: what is compacted meanwhile stands in them
        for name in session.sessions(folder):
            _add_running(found, folder, name)
        found.unreadable.update(session.links(folder))
    found.listing = listed(folder)
    for file in found.listing.events:
        columns = (c.CLUSTER, c.CONNECTION, c.KIND, c.CAUSE, c.DETAIL)
        for cluster, connection, kind, cause, detail in _rows(found, file, columns, sessions):
            facts = facts_of(detail)
            if kind == c.EVENT_GAP and connection is None and cause == c.GAP_DAMAGE:
                # an entry that tells of a cluster may have been lost with its part of the log
                found.unreadable.add(file.session)
            elif kind == c.EVENT_CLUSTER:
                found.told.add(file.session)
                found.add_known((file.session, cluster), facts, file)
                if not _tells_all(facts):
                    found.unreadable.add(file.session)
            elif kind in (c.EVENT_NODE, c.EVENT_OPENED):
                found.add_addresses(file.session, facts.get("upstream"), facts.get("listener"))
    for file in found.listing.frames:
        for cluster, listener in {*_rows(found, file, (c.CLUSTER, c.LISTENER), sessions)}:
            captured = found.frames[file.session, cluster]
            captured += [file] if file not in captured[-1:] else []
            if file.session not in found.told:
                found.add_addresses(file.session, listener)
    return found


def _rows(found: RecordedClusters, file: CaptureFile, columns: Sequence[str], sessions: Sequence[str]) -> Iterator[Any]:
    try:
        for table in row_groups(file, columns):
            yield from zip(*(table[name].to_pylist() for name in columns), strict=True)
    except DamagedFileError:
        if is_played(file.session, sessions):
            raise
        found.unreadable.add(file.session)


def is_played(session: str, sessions: Sequence[str]) -> bool:
    """True for a session whose name begins like one of `sessions`; none: all."""
    return not sessions or session.startswith(tuple(sessions))


def _add_running(found: RecordedClusters, folder: Path, name: str) -> None:
    """Adds what the log of a session tells that is not compacted yet. A segment begins with all told before it.

    Its last bytes may still be on their way.
    """
    clusters: set[str | None] = set()
    has_inventory = False
    try:
        with session.open_session(folder, name) as opened:
            newest = segments(opened)[-1:]
            for number in newest:
                reader = SegmentReader(opened, number)
                end = reader.size
                try:
                    while (entries := reader.read(end)) or reader.pass_over(end):
                        for entry in entries:
                            if entry.kind in (EntryKind.CLUSTER, EntryKind.INVENTORY):
                                is_inventory = entry.kind == EntryKind.INVENTORY
                                has_inventory |= is_inventory
                                facts = entry_json.decoded(entry)
                                for each in facts.get("clusters", ()) if is_inventory else [facts]:
                                    clusters.add(each["cluster"])
                                    found.add_known((name, each["cluster"]), each)
                    # a segment has its inventory before others see it
                    if reader.passed_over or not reader.is_torn(end) or not has_inventory:
                        found.unreadable.add(name)
                finally:
                    reader.close()
    except FileNotFoundError:
        # it has been compacted meanwhile
        return
    except (ValueError, OSError):
        # its log is of a newer program, or damaged
        found.unreadable.add(name)
    found.running.update((name, cluster) for cluster in clusters or {None})


def facts_of(detail: str | None) -> dict[str, Any]:
    """The details of an event; none if they can't be read."""
    try:
        found = json.loads(detail or "{}")
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _tells_all(facts: dict[str, Any]) -> bool:
    """False for an event of a cluster that no program of this format has written."""
    lists = [facts.get(name) for name in (c.CLUSTER_IDS, c.UPSTREAMS, c.LISTENERS)]
    return all(isinstance(each, list) and all(isinstance(one, str) for one in each) for each in lists)


def _list(facts: dict[str, Any], name: str) -> list[Any]:
    found = facts.get(name)
    return found if isinstance(found, list) else []
