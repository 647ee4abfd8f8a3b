"""Tests of joining consecutive buffers with few copies."""

from hypothesis import given
from hypothesis import strategies as st

from proxy.wire.pieces import LARGE, Pieces

SIZES = st.integers(0, 5) | st.integers(LARGE - 2, LARGE + 2)


@given(st.lists(st.lists(SIZES)))
def test_pieces_are_all_their_bytes_in_order_and_the_large_ones_are_not_copied(sizes: list[list[int]]) -> None:
    buffers = [[bytes([at]) * size for size in each] for at, each in enumerate(sizes)]
    whole = Pieces([piece for each in buffers for piece in (Pieces(each), b"-")])
    assert bytes(whole) == b"".join(b"".join(each) + b"-" for each in buffers)
    assert len(whole) == len(bytes(whole))
    large = [one for each in buffers for one in each if len(one) >= LARGE]
    kept = [one for one in whole.buffers if any(one is each for each in large)]
    assert kept == large or len(whole) < LARGE
    # at most one buffer lies between two large ones
    assert len(Pieces([one for each in buffers for one in each]).buffers) <= 2 * len(large) + 1


def test_no_pieces_are_no_bytes() -> None:
    assert (bytes(Pieces([])), len(Pieces([])), bool(Pieces([]))) == (b"", 0, False)
