"""Tests of the backlog against a plain list that is searched from its beginning each time."""

import json
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recorder.capture.backlog import NOWHERE, PENDING_COST, Backlog, PendingEntry
from recorder.capture.spool import DATA, DIRECTION, KIND, EntryKind, Item
from tests.tables import each_row

EVERYWHERE = (NOWHERE, NOWHERE)
NOBODY = (False, False)


def bytes_of(direction: int, offset: int, data: bytes, at_ns: int = 0) -> PendingEntry:
    return PendingEntry(EntryKind.BYTES, direction, offset, at_ns, data)


def control_entry(direction: int, offset: int, data: bytes = b"{}") -> PendingEntry:
    return PendingEntry(EntryKind.LOGIN, direction, offset, 0, data)


def items(backlog: Backlog, barriers: tuple[int, int] = EVERYWHERE, holds: tuple[bool, bool] = NOBODY) -> list[Item]:
    return [item for kept in backlog.release(barriers, holds) for item in kept.items(1)]


class Stream:
    """The twin: every byte of a direction, and whether it is masked, left out by a setting, or dropped by a rule."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.data = b""
        self.masked: set[int] = set()
        self.left_out: set[int] = set()
        self.dropped: set[int] = set()

    def grow(self) -> bytes:
        # without zeros, because masked bytes are zeros
        chunk = bytes(self.rng.randrange(1, 256) for _ in range(self.rng.randrange(1, 12)))
        self.data += chunk
        return chunk

    def stretches(self, of: set[int], since: int) -> list[tuple[int, int]]:
        """Draws a few more stretches, after the earlier ones and after the written bytes."""
        at = max([since, *(one + 1 for one in of)])
        found = []
        while at < len(self.data) and self.rng.random() < 0.6:
            start = self.rng.randrange(at, len(self.data))
            at = min(start + self.rng.randrange(1, 15), len(self.data))
            of.update(range(start, at))
            found.append((start, at))
        return found


def written(found: list[Item], direction: int) -> tuple[bytes, set[int], set[int], set[int]]:
    """The bytes of a direction in the items, at their offsets, with masked, left-out and dropped places."""
    stream, masked, left_out, dropped = b"", set[int](), set[int](), set[int]()
    for kind, side, _, offset, _, data, spans in found:
        if side != direction:
            continue
        assert offset == len(stream)
        if kind == EntryKind.OMITTED:
            length = json.loads(data)["length"]
            left_out.update(range(offset, offset + length))
            stream += bytes(length)
            continue
        of_spans = {at for start, length in spans for at in range(offset + start, offset + start + length)}
        if kind == EntryKind.CUT:
            dropped |= of_spans
            kept = iter(data)
            arrived = len(data) + sum(length for _, length in spans)
            stream += bytes(0 if offset + at in of_spans else next(kept) for at in range(arrived))
        else:
            masked |= of_spans
            stream += data
    return stream, masked, left_out, dropped


@given(st.integers(0, 1 << 32))
def test_what_is_not_there_does_not_depend_on_entry_boundaries(seed: int) -> None:
    rng = random.Random(seed)
    backlog, streams = Backlog(), (Stream(rng), Stream(rng))
    barriers, found = [0, 0], []
    for _ in range(rng.randrange(1, 30)):
        direction = rng.randrange(2)
        stream, barrier = streams[direction], barriers[direction]
        backlog.add(bytes_of(direction, len(stream.data), stream.grow()))
        if rng.random() < 0.7:
            backlog.mask(direction, stream.stretches(stream.masked, barrier))
        # what a rule drops is never left out by a setting, too
        is_dropped = rng.random() < 0.5
        gone = stream.dropped if is_dropped else stream.left_out
        for start, stop in stream.stretches(gone, max([barrier, *(at + 1 for at in stream.dropped | stream.left_out)])):
            backlog.leave_out(direction, start, stop, are_records=is_dropped)
        if rng.random() < 0.3:
            backlog.join(direction, barrier)
        if rng.random() < 0.5:
            barriers[direction] = rng.randrange(barrier, len(stream.data) + 1)
            found += items(backlog, (barriers[0], barriers[1]), (rng.random() < 0.3, False))
    found += items(backlog)
    assert (len(backlog), backlog.cost) == (0, 0)
    for direction, stream in enumerate(streams):
        data, masked, left_out, dropped = written(found, direction)
        absent = stream.left_out | stream.dropped
        assert (left_out, dropped) == (stream.left_out, stream.dropped)
        assert masked == stream.masked - absent
        gone = stream.masked | absent
        assert data == bytes(0 if at in gone else byte for at, byte in enumerate(stream.data))


def test_dropped_stretches_of_an_entry_are_one_item() -> None:
    pending = bytes_of(0, 10, b"abcdefghij")
    for start, stop in ((12, 14), (17, 18)):
        pending.leave_out(start, stop, are_records=True)
    assert [*pending.items(1)] == [(EntryKind.CUT, 0, 1, 10, 0, b"abefgij", ((2, 2), (7, 1)))]


def looked_through(
    arrived: list[PendingEntry], barriers: tuple[int, int], holds: tuple[bool, bool]
) -> tuple[list[int], list[int]]:
    """Returns the numbers of the entries that may leave and of those that stay, by a search through all entries."""
    gone, stay, stuck = [], [], False
    for number, kept in enumerate(arrived, 1):
        is_free = kept.kind != EntryKind.BYTES or kept.end <= barriers[kept.direction]
        if is_free and not stuck:
            gone.append(number)
        else:
            stay.append(number)
            stuck = stuck or holds[kept.direction]
    return gone, stay


@given(
    st.lists(st.sampled_from([(0, True), (1, True), (0, False), (1, False)]), max_size=20),
    st.tuples(st.integers(0, 10), st.integers(0, 10)),
    st.tuples(st.booleans(), st.booleans()),
)
def test_entries_leave_in_the_order_in_which_they_came(
    kinds: list[tuple[int, bool]], barriers: tuple[int, int], holds: tuple[bool, bool]
) -> None:
    backlog, arrived, offsets = Backlog(), [], [0, 0]
    for direction, is_bytes in kinds:
        kept = bytes_of(direction, offsets[direction], b"x") if is_bytes else control_entry(direction, 0)
        offsets[direction] += is_bytes
        backlog.add(kept)
        arrived.append(kept)
    gone, stay = looked_through(arrived, barriers, holds)
    assert [kept.number for kept in backlog.release(barriers, holds)] == gone
    assert [kept.number for kept in backlog.release(EVERYWHERE, NOBODY)] == stay


def test_an_entry_in_which_a_barrier_stands_leaves_up_to_it() -> None:
    backlog = Backlog()
    backlog.add(bytes_of(0, 10, b"abcdef", at_ns=7))
    backlog.mask(0, [(11, 14)])
    assert items(backlog, (12, NOWHERE)) == [(EntryKind.BYTES, 0, 1, 10, 7, b"a\0", ((1, 1),))]
    assert items(backlog) == [(EntryKind.BYTES, 0, 1, 12, 7, b"\0\0ef", ((0, 2),))]


def test_a_barrier_releases_the_entries_before_it() -> None:
    backlog = Backlog()
    for direction, offset in ((1, 0), (0, 0), (1, 1), (0, 1)):
        backlog.add(bytes_of(direction, offset, b"x"))
    assert [item[DIRECTION] for item in items(backlog, (0, NOWHERE), (True, False))] == [1]
    assert [item[DIRECTION] for item in items(backlog)] == [0, 1, 0]


@each_row(("offset", "place"), [(0, 0), (2, 0), (3, 1), (5, 1), (6, 2), (9, 2)])
def test_a_fact_stands_before_the_bytes_that_it_is_about(offset: int, place: int) -> None:
    backlog = Backlog()
    backlog.add(bytes_of(0, 0, b"abc"))
    backlog.add(bytes_of(0, 3, b"def"))
    backlog.add_before_offset(control_entry(0, offset))
    assert [item[KIND] for item in items(backlog)].index(EntryKind.LOGIN) == place


def test_facts_about_the_same_bytes_stay_in_their_order() -> None:
    backlog = Backlog()
    backlog.add(bytes_of(0, 0, b"abc"))
    for data in (b"1", b"2", b"3"):
        backlog.add_before_offset(control_entry(0, 1, data))
    assert [item[DATA] for item in items(backlog)] == [b"1", b"2", b"3", b"abc"]


def test_the_pieces_of_what_is_not_known_yet_become_one_entry_with_the_time_of_the_first() -> None:
    backlog = Backlog()
    for at in range(100):
        backlog.add(bytes_of(0, at, b"x", at_ns=at))
        backlog.join(0, 10)
    assert len(backlog) == 11
    assert backlog.cost == 100 + 11 * PENDING_COST
    assert items(backlog)[-1][2:] == (1, 10, 10, b"x" * 90, ())


def test_a_cleared_backlog_returns_its_first_offsets() -> None:
    backlog = Backlog()
    backlog.add(bytes_of(1, 30, b"abc"))
    backlog.add(control_entry(0, 5))
    assert backlog.clear() == (None, 30)
    assert (len(backlog), backlog.cost) == (0, 0)


@pytest.mark.parametrize("at", [0, 3, 6], ids=["before", "within", "behind"])
def test_a_fact_about_what_follows_an_offset_stands_there_in_the_newest_entry(at: int) -> None:
    backlog = Backlog()
    backlog.add(bytes_of(1, 0, b"answer"))
    backlog.mask(1, [(2, 5)])
    backlog.split(1, at)
    backlog.add_before_offset(control_entry(1, at))
    found = items(backlog)
    told = next(number for number, item in enumerate(found) if item[KIND] == EntryKind.LOGIN)
    assert sum(len(item[DATA]) for item in found[:told]) == at
    assert b"".join(item[DATA] for item in found if item[KIND] == EntryKind.BYTES) == b"an\0\0\0r"
    assert backlog.cost == 0
