"""The pairs of offsets that a Produce tells, against a plain list of records."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from recorder.replay.consumers.produced_offsets import offset_pairs
from recorder.replay.plan import NO_OFFSET, Repeated

# whether a record is sent, and if not, where the target has it
SENT, UNKNOWN = "sent", NO_OFFSET
RECORDS = st.lists(st.sampled_from([SENT, SENT, 5, 6, 70, UNKNOWN]), min_size=1, max_size=10)


@given(RECORDS, st.integers(0, 50), st.sampled_from([NO_OFFSET, 200]))
def test_each_record_of_a_produce_has_its_own_offset(records: list[str | int], base: int, target: int) -> None:
    repeated = [Repeated(index, 1, at) for index, at in enumerate(records) if isinstance(at, int)]
    length = len(records) - len(repeated) if target != NO_OFFSET else 0
    expected, following = dict[int, int](), target
    for index, at in enumerate(records):
        if at == SENT and target != NO_OFFSET:
            expected[base + index] = following
            following += 1
        elif isinstance(at, int) and at != UNKNOWN:
            expected[base + index] = at
    found = [*offset_pairs(base, target, length, repeated)]
    assert {pair.recorded + place: pair.target + place for pair in found for place in range(pair.length)} == expected


def test_a_pair_is_known_without_the_number_of_records() -> None:
    assert [*offset_pairs(100, 50, 0)] == [(100, 50, 0)]
