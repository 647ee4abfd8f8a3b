"""Tests of the fuzz target of arbitrary spools: the corpus, mutations, and a check that finds planted faults."""

import json
import random
from typing import Any

import pytest

from fuzz import spools
from fuzz.checks import run
from fuzz.findings import Finding
from fuzz.spools import COUNTED, STATE, Record, packed, records_of
from recorder.capture import entry_json
from recorder.capture.rows import RowMaker
from recorder.capture.spool import EntryKind
from tests.sweeps import mostly_long

INPUTS = list(spools.inputs())
# values that break readers of JSON: other types, ends of ranges, deeper nesting
VALUES: tuple[Any, ...] = (
    None,
    0,
    1,
    -1,
    1 << 31,
    (1 << 62) - 1,
    1 << 62,
    "",
    "x",
    [],
    {},
    True,
    [0, 0],
    "request",
    "kafka-0.7",
)
KINDS = (*EntryKind, 0, 99)
PARTS, EACH = 4, 60


@pytest.mark.real
def test_the_corpus_passes() -> None:
    for one in INPUTS:
        run("session", one.data, measured=False)


@pytest.mark.real
@pytest.mark.parametrize("part", mostly_long(range(PARTS), usual=1))
def test_the_corpus_takes_little_memory(part: int) -> None:
    # measuring takes ten times as long
    for one in INPUTS[part::PARTS]:
        run("session", one.data, measured=True)


def test_the_corpus_has_every_kind_of_entry() -> None:
    kinds = {record.kind for one in INPUTS for record in records_of(one.data)}
    of_taps = {
        EntryKind.NODE,
        EntryKind.CLUSTER,
        EntryKind.IMPORTED,
        EntryKind.CLOCK,
        EntryKind.INVENTORY,
        EntryKind.UNSUPPORTED_VERSION,
        EntryKind.END_OF_STREAM,
    }
    assert kinds == ({int(kind) for kind in EntryKind} - of_taps) | {spools.SEGMENT, STATE}


def test_records_are_what_was_packed() -> None:
    for one in INPUTS:
        assert packed([*records_of(one.data)]) == one.data


def changed(rng: random.Random, value: Any) -> Any:
    """Changes some place of a JSON value."""
    if isinstance(value, dict) and value and rng.random() < 0.8:
        name = rng.choice([*value])
        return {key: changed(rng, one) if key == name else one for key, one in value.items()}
    if isinstance(value, list) and value and rng.random() < 0.8:
        at = rng.randrange(len(value))
        return [*value[:at], *([changed(rng, value[at])] * rng.choice((0, 1, 1, 2))), *value[at + 1 :]]
    if isinstance(value, int):
        return rng.choice((value + 1, value - 1, value * 2, *VALUES))
    return rng.choice(VALUES)


def told(rng: random.Random, data: bytes) -> bytes:
    try:
        return json.dumps(changed(rng, json.loads(data))).encode()
    except ValueError:
        at = rng.randrange(len(data) + 1)
        return data[:at] + rng.randbytes(1) + data[at + 1 :]


def mutated(rng: random.Random, record: Record) -> list[Record]:
    """Removes, doubles or changes it."""
    length = 4 + int.from_bytes(record.data[:4], "big") if record.kind == STATE else 0
    text = told(rng, record.data[4:length] if length else record.data)
    if length:
        text = len(text).to_bytes(4, "big") + text + record.data[length:]
    others = [
        record._replace(kind=rng.choice(KINDS)),
        record._replace(direction=record.direction ^ 1),
        record._replace(number=rng.choice((0, 1, COUNTED))),
        record._replace(connection=rng.choice((-1, 0, 2))),
        record._replace(spans=((0, 2), (1, 3))),
        record._replace(spans=tuple((start, rng.choice((0, 9, 1 << 20, 1 << 31))) for start, _ in record.spans)),
        record._replace(offset=record.offset + rng.choice((-1, 1, 99))),
        record._replace(mono_ns=rng.choice((0, 10**15))),
    ]
    return rng.choice([[], [record, record], *([one] for one in others), *[[record._replace(data=text)]] * 8])


@pytest.mark.real
@pytest.mark.parametrize("part", mostly_long(range(PARTS), usual=1))
def test_mutations_pass_too(part: int) -> None:
    rng = random.Random(part)
    for _ in range(EACH):
        one = rng.choice(INPUTS)
        records = [*records_of(one.data)]
        for _ in range(rng.randint(1, 3)):
            at = rng.randrange(len(records))
            records[at : at + 1] = mutated(rng, records[at])
            if not records:
                break
        run("session", packed(records))


def named(kind: int) -> bytes:
    """Returns an input that has an entry of this kind."""
    return next(one.data for one in INPUTS if any(record.kind == kind for record in records_of(one.data)))


def test_an_exception_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(entry_json, "decode_checked", lambda decoder, text: {})
    with pytest.raises(KeyError):
        run("session", named(EntryKind.CLOSED))


def test_a_row_that_lacks_bytes_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    add = RowMaker.add_frame

    def shorter(self: RowMaker, conn: Any, direction: int, kind: Any, exchange: Any, frame: bytes, *rest: Any) -> None:
        add(self, conn, direction, kind, exchange, frame, *rest)
        (group,) = self._groups.values()
        group._in_body[len(group) - 1] = group._stored[len(group) - 1] = 0

    monkeypatch.setattr(RowMaker, "add_frame", shorter)
    with pytest.raises(Finding, match="what a row lacks was left out"):
        run("session", named(EntryKind.UNFRAMED))


def test_a_session_that_is_never_finished_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("recorder.capture.compaction.take_writer_lock", lambda session: None)
    with pytest.raises(Finding, match="a session is finished"):
        run("session", INPUTS[0].data)
