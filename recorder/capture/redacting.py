"""Applies rules for records to a finished capture, file by file, into another folder. Used by `kafka-wiretap redact`.

One implementation of each rule: the tap's walk finds what is dropped, the compactor's function hashes the rest, and the
tap's choices of topics and clients leave exchanges out (`unchosen`). So the rows are those that a recording with the
rules would have, where each topic's id was told before its first use: here all ids are known that any answer of the
capture tells.

A file's rows stay in its row groups, under its name. A file is hidden until it is whole. Frames that were dropped or
hashed before can't be hashed any more: a capture with hashed records is refused.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import compress, groupby
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from proxy.conversation.exchange import Direction
from proxy.schema.toml import dotted
from proxy.wire import apis, catalog, keys
from proxy.wire.dialects import Dialect
from proxy.wire.errors import WireError
from proxy.wire.texts import check_text_piece
from recorder.capture import frames as c
from recorder.capture.frame_filter import LONGEST_CLIENT_ID
from recorder.capture.merging import TABLES
from recorder.capture.partitions import range_name
from recorder.capture.reader import ALL, CaptureFile, file_at, files, tables_of
from recorder.capture.record_filter import RecordFilter, RecordSpans
from recorder.capture.record_hashing import RecordHashing, hashing_of
from recorder.capture.remote import place_at
from recorder.capture.selection import Sample, Selection, SelectionSettings, as_told
from recorder.capture.storage import TableFile, ignore_step, publish
from recorder.capture.streams import counted_note
from recorder.capture.topic_ids import TopicIds
from recorder.capture.unchosen import UNREADABLE, Place, SessionChoices, is_cut, packed, unpacked, upstreams, version_of

# cluster, id in hex, name
Told = tuple[str | None, str, str]

# the table of settings by which a capture tells how it was redacted
SECTION = "redact"
_LENGTH = 4
# the columns that rules change
_CHANGED = (c.NOTE, c.CLIENT_ID, c.FRAME, c.STORED, c.MASKED, c.OMITTED, c.DROPPED, c.RECORDS, c.BATCHES)


class CannotRedact(Exception):
    """The folders, or a file, can't be redacted. The message is one line for the user."""


class Redacted(NamedTuple):
    """The outcome for a file. `reason`: why it could not be made; None: it was."""

    path: str
    rows: int
    reason: str | None


@dataclass(frozen=True, slots=True)
class Redaction:
    """The rules, and where to.

    `key`: that of hashes, in no text of this object; `topics`: what `topics_told` found; `unchosen`: what `left_out`
    found.
    """

    out: str
    rules: SelectionSettings
    key: bytes | None = field(default=None, repr=False)
    topics: tuple[Told, ...] = ()
    unchosen: Mapping[str, bytes] = field(default_factory=dict)


def check_apart(folder: Path, out: Path) -> None:
    """Errors: CannotRedact unless `out` is a new folder apart from the capture."""
    source, target = folder.resolve(), out.resolve()
    if source == target or source in target.parents or target in source.parents:
        raise CannotRedact(f"{out} and {folder} must be apart")
    if out.exists():
        raise CannotRedact(f"{out} exists already")


def captured_files(folder: Path) -> list[str]:
    """All files of a capture's tables. Errors: as of `reader.files`."""
    return [str(file.path) for table_name in TABLES for file in files(folder, table_name)]


def topics_told(paths: Iterable[str], rules: SelectionSettings) -> tuple[Told, ...]:
    """The ids of topics that answers tell, with their names, as far as the files can be read."""
    told, compiled = defaultdict[str | None, TopicIds](TopicIds), Selection(rules).rules
    telling = [
        key for key in apis.api_keys() if any(catalog.tells_topics("response", key, v) for v in apis.versions(key))
    ]
    where = (pc.field(c.KIND) == c.RESPONSE) & pc.field(c.API_KEY).isin(telling) & (pc.field(c.DIALECT) == c.KAFKA)
    for file in map(_file, paths):
        if _table_name(file) != c.FRAMES_FOLDER:
            continue
        with suppress(*UNREADABLE):
            for row in (row for table in tables_of(file, (*_HEADS, c.FRAME), where) for row in table.to_pylist()):
                _spans_of(RecordFilter(compiled, told[row[c.CLUSTER]], is_kafka07=False), row)
    return tuple((cluster, each.hex(), name) for cluster, ids in told.items() for each, name in ids.items())


def left_out(paths: Iterable[str], rules: SelectionSettings, topics: Iterable[Told]) -> dict[str, bytes]:
    """The exchanges that a choice of topics leaves out, packed, by the names of files without their endings.

    Files of segments of which one can't be read are not among them. `topics`: what `topics_told` found.
    """
    selection, of_tables = Selection(rules), defaultdict[str, list[CaptureFile]](list)
    if selection.rules.only.matches_all:
        return {}
    for file in map(_file, paths):
        of_tables[_table_name(file)].append(file)
    found = {}
    for session, of_session in groupby(of_tables[c.FRAMES_FOLDER], key=lambda file: file.session):
        brokers = upstreams(file for file in of_tables[c.EVENTS_FOLDER] if file.session == session)
        choices = SessionChoices(selection.rules, _topic_ids(topics), brokers, partial(_is_sampled, selection.sample))
        for (first, last), of_range in groupby(of_session, key=lambda file: (file.first, file.last)):
            try:
                found[Path(range_name(session, first, last)).stem] = packed(choices.left_out([*of_range]))
            except UNREADABLE:
                choices.forget()
    return found


def _topic_ids(topics: Iterable[Told]) -> Mapping[str | None, TopicIds]:
    ids = defaultdict[str | None, TopicIds](TopicIds)
    for cluster, told, name in topics:
        ids[cluster].learn(bytes.fromhex(told), name)
    return ids


def _is_sampled(sample: Sample, row: Mapping[str, Any]) -> bool:
    """True if shares take the exchange of a row. Login tokens and bytes have none, and stay."""
    if sample.takes_all or row[c.EXCHANGE] is None:
        return True
    client = row[c.CLIENT] or ""
    name = (row[c.CLIENT_ID] or "").encode()[:LONGEST_CLIENT_ID].decode("utf-8", "replace")
    is_taken = sample.takes_exchange(row[c.API], client, row[c.EXCHANGE])
    return is_taken and sample.takes_client(client.rpartition(":")[0], name)


def redact_file(redaction: Redaction, path: str) -> Redacted:
    """Makes the redacted file of one file of a capture. Errors: OSError of the new folder."""
    file = _file(path)
    name = range_name(file.session, file.first, file.last)
    table_name, hour = _table_name(file), file.hour_ns // c.HOUR_NS
    made = TableFile(Path(redaction.out), table_name, hour, name, c.schema_of(table_name))
    rows = 0
    try:
        for table in _redacted(redaction, file, table_name):
            rows += len(table)
            made.write(table)
        publish([made], ignore_step)
    except (*UNREADABLE, CannotRedact) as error:
        made.discard()
        return Redacted(path, 0, str(error))
    except BaseException:
        made.discard()
        raise
    return Redacted(path, rows, None)


def _file(path: str) -> CaptureFile:
    return file_at(place_at(path))


def _table_name(file: CaptureFile) -> str:
    return str(file.path.parents[2].name)


def _redacted(redaction: Redaction, file: CaptureFile, table_name: str) -> Iterator[Any]:
    names = c.schema_of(table_name).names
    if table_name == c.FRAMES_FOLDER:
        frames = _Frames(redaction, _unchosen_in(redaction, file))
        yield from map(frames.redacted, tables_of(file, ALL))
    elif table_name == c.EVENTS_FOLDER:
        yield from _redacted_events(redaction, tables_of(file, names))
    else:
        yield from tables_of(file, names)


def _unchosen_in(redaction: Redaction, file: CaptureFile) -> frozenset[Place]:
    """The exchanges of a file that are left out by their topics. Errors: CannotRedact where nobody can tell."""
    content = redaction.unchosen.get(file.path.stem)
    if content is not None:
        return unpacked(content)
    if Selection(redaction.rules).rules.only.matches_all:
        return frozenset()
    raise CannotRedact("a file of its segments can't be read, so nobody can tell what in it is about chosen topics")


def _redacted_events(redaction: Redaction, tables: Iterator[Any]) -> Iterator[Any]:
    """Events. Beginnings of sessions tell the key of hashes, as a recording's do; settings tell how it was redacted."""
    hashing = hashing_of(redaction.rules, redaction.key)
    key = {} if hashing is None else {c.HASH_KEY: hashing.fingerprint}
    # the path of a file on this machine is nobody's business
    rules = as_told(replace(redaction.rules, hash_key=None), SECTION)
    chosen = {dotted(place): value for place, value in rules.items()}
    rows: list[dict[str, Any]] = []
    is_told = False
    for table in tables:
        rows = table.to_pylist()
        for row in rows:
            if (row[c.KIND], row[c.CAUSE]) == (c.EVENT_SESSION, "started"):
                row[c.DETAIL] = json.dumps(json.loads(row[c.DETAIL]) | key)
            elif row[c.KIND] == c.EVENT_SETTINGS:
                detail = json.loads(row[c.DETAIL])
                row[c.DETAIL] = json.dumps(detail | {c.SETTINGS: (detail.get(c.SETTINGS) or {}) | chosen})
                is_told = True
        yield pa.Table.from_pylist(rows, schema=table.schema)
    if rows and not is_told:
        # sessions of older versions tell nothing of what was in force
        row = {name: rows[-1][name] for name in (c.SESSION, c.AT, c.AT_NS, c.MONO_NS)}
        row |= {c.KIND: c.EVENT_SETTINGS, c.DETAIL: json.dumps({c.SETTINGS: chosen})}
        yield pa.Table.from_pylist([row], schema=table.schema)


_HEADS = (c.CLUSTER, c.EXCHANGE, c.KIND, c.API_KEY, c.API_VERSION, c.AWAITS, c.NOTE, c.OMITTED)


class _Frames:
    """The rules at work on one file's frames, in their order. `unchosen`: the exchanges that no chosen topic is in."""

    def __init__(self, redaction: Redaction, unchosen: frozenset[Place]) -> None:
        selection = Selection(redaction.rules)
        self._rules, self._sample, self._unchosen = selection.rules, selection.sample, unchosen
        self._hashing: RecordHashing | None = hashing_of(redaction.rules, redaction.key)
        self._ids = _topic_ids(redaction.topics)
        if self._hashing is not None:
            self._hashing.restore(redaction.topics)
        # by connection: those of 0.7 remember which topics were asked for
        self._filters: dict[tuple[str | None, int], RecordFilter] = {}

    def redacted(self, table: Any) -> Any:
        """The rows by the rules. Errors: CannotRedact."""
        rows = table.to_pylist()
        stays = [self._stays(row) for row in rows]
        if not all(stays):
            table, rows = table.filter(pa.array(stays)), [*compress(rows, stays)]
        changes = {at: change for at, row in enumerate(rows) if (change := self._change(row)) is not None}
        for name in _CHANGED if changes else ():
            index = table.schema.get_field_index(name)
            values = table[name].to_pylist()
            for at, change in changes.items():
                values[at] = change[name]
            table = table.set_column(index, table.schema.field(index), pa.array(values, table.schema.field(index).type))
        return table

    def _stays(self, row: dict[str, Any]) -> bool:
        return (row[c.CONNECTION], row[c.EXCHANGE]) not in self._unchosen and _is_sampled(self._sample, row)

    def _change(self, row: dict[str, Any]) -> Mapping[str, Any] | None:
        """The changed values of a row; None if it stays."""
        if row[c.FRAME] is None or row[c.KIND] not in (c.REQUEST, c.RESPONSE) or row[c.EXCHANGE] is None:
            return None
        if row[c.RECORDS] == c.HASH:
            raise CannotRedact("its records are hashed already")
        found = self._ruled(row)
        return None if all(found[name] == row[name] for name in _CHANGED) else found

    def _ruled(self, row: dict[str, Any]) -> dict[str, Any]:
        masked, omitted, dropped = (_pairs(row[name]) for name in (c.MASKED, c.OMITTED, c.DROPPED))
        kept = row[c.SIZE] - sum(length for _, length in omitted)
        frame = bytearray(row[c.FRAME])
        spans, unreadable_from, counted = _spans_of(self._filter_of(row), row)
        dropped = _joined([*dropped, *((start, min(stop, kept) - start) for start, stop in spans if start < kept)])
        if unreadable_from is not None and unreadable_from < kept:
            omitted, kept = [(unreadable_from, row[c.SIZE] - unreadable_from)], unreadable_from
            dropped = [(start, length) for start, length in dropped if start < kept]
        del frame[kept:]
        for start, length in dropped:
            frame[start : start + length] = bytes(length)
        # of a frame that nobody can read, what stands where a client id would may be anything
        is_doubted = unreadable_from is not None and (version_of(row) is None or row[c.KIND] == c.REQUEST)
        client_id = None if is_doubted or _may_hold_records(row) else row[c.CLIENT_ID]
        changed: dict[str, Any] = {c.RECORDS: c.DROP if dropped else None, c.BATCHES: None}
        key, version = row[c.API_KEY], version_of(row)
        direction, dialect = _direction(row), Dialect(row[c.DIALECT])
        if self._hashing is not None and self._hashing.concerns(direction, key, version, dialect):
            whole = bytes(frame) + bytes(row[c.SIZE] - kept)
            at = direction, key, version, row[c.CLUSTER]
            found = self._hashing.hashed(*at, whole, masked=masked, dropped=dropped, omitted=omitted)
            if found is not None:
                frame, masked, omitted = bytearray(found.whole), found.masked, found.omitted
                dropped, kept = [], row[c.SIZE] - sum(length for _, length in omitted)
                changed = {c.RECORDS: c.HASH, c.BATCHES: [told._asdict() for told in found.told or ()]}
        return changed | {
            c.NOTE: row[c.NOTE] or (counted_note(counted) if counted else None),
            c.CLIENT_ID: client_id,
            c.FRAME: bytes(frame),
            c.STORED: kept,
            c.MASKED: _values(masked),
            c.OMITTED: _values(omitted),
            c.DROPPED: _values(dropped),
        }

    def _filter_of(self, row: dict[str, Any]) -> RecordFilter:
        place = row[c.CLUSTER], row[c.CONNECTION]
        found = self._filters.get(place)
        if found is None:
            is_kafka07 = row[c.DIALECT] == c.KAFKA_07
            found = self._filters[place] = RecordFilter(self._rules, self._ids[row[c.CLUSTER]], is_kafka07=is_kafka07)
        return found


def _spans_of(records: RecordFilter, row: Mapping[str, Any]) -> RecordSpans:
    """What the rules leave out of a row's frame, in offsets without the length."""
    frame = bytes(_LENGTH) + row[c.FRAME]
    awaits = row[c.AWAITS] is not False
    found = records.of_whole(
        _direction(row), row[c.API_KEY], version_of(row), row[c.EXCHANGE] or 0, frame, awaits=awaits, is_cut=is_cut(row)
    )
    if found is None:
        return RecordSpans([], None, [])
    rest = found.unreadable_from
    spans = [(start - _LENGTH, stop - _LENGTH) for start, stop in found.spans]
    return RecordSpans(spans, None if rest is None else rest - _LENGTH, found.counted)


def _may_hold_records(row: Mapping[str, Any]) -> bool:
    """True if a wrong length may have made records a Produce's client id; its answer's row has the same one."""
    client_id = (row[c.CLIENT_ID] or "").encode()
    try:
        check_text_piece(client_id, is_topic=False)
    except WireError:
        return bool(row[c.API_KEY] == keys.PRODUCE)
    return row[c.API_KEY] == keys.PRODUCE and "\ufffd" in (row[c.CLIENT_ID] or "")


def _direction(row: Mapping[str, Any]) -> Direction:
    return Direction.RESPONSE if row[c.KIND] == c.RESPONSE else Direction.REQUEST


def _pairs(spans: Sequence[Mapping[str, int]] | None) -> list[tuple[int, int]]:
    return [(span["start"], span["length"]) for span in spans or ()]


def _values(spans: Sequence[tuple[int, int]]) -> list[dict[str, int]] | None:
    return [{"start": start, "length": length} for start, length in spans] or None


def _joined(spans: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Spans in order, those that touch or overlap made one."""
    joined: list[tuple[int, int]] = []
    for start, length in sorted(spans):
        if joined and start <= sum(joined[-1]):
            begin, before = joined[-1]
            joined[-1] = begin, max(before, start + length - begin)
        else:
            joined.append((start, length))
    return joined
