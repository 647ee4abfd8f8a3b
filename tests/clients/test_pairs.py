"""Tests of pairing: each conversation gets a partner if that is possible, compared with trying every way."""

from itertools import permutations

from hypothesis import given
from hypothesis import strategies as st

from tests.clients.pairs import pairs

SIDE = range(4)


@given(
    fitting=st.sets(st.tuples(st.sampled_from(SIDE), st.sampled_from(SIDE))),
    must=st.sets(st.sampled_from(SIDE)),
    must_other=st.sets(st.sampled_from(SIDE)),
)
def test_each_conversation_that_must_have_a_partner_gets_one_if_possible(
    fitting: set[tuple[int, int]], must: set[int], must_other: set[int]
) -> None:
    found = pairs(SIDE, SIDE, lambda *both: both in fitting, must=must.__contains__, must_other=must_other.__contains__)
    assert fitting.issuperset(found)
    assert len(found) == len({one for one, _ in found}) == len({other for _, other in found})
    every_way = [{(i, j) for i, j in enumerate(others) if (i, j) in fitting} for others in permutations(SIDE)]
    can_be = any(_has(way, must, must_other) for way in every_way)
    assert not can_be or _has(set(found), must, must_other)


def _has(found: set[tuple[int, int]], must: set[int], must_other: set[int]) -> bool:
    return must <= {one for one, _ in found} and must_other <= {other for _, other in found}
