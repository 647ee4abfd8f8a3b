"""Tests of where frames begin again."""

from __future__ import annotations

import random
from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from proxy.conversation import Conversation, Direction, Routes
from recorder.pcap.pickup import Pickup, Resumed
from recorder.pcap.pool import Pool
from recorder.pcap.tcp import Piece
from tests.recorder.capture.traffic import Talk
from tests.recorder.pcap.imports import a_talk, lockstep


def found(chunks: Sequence[Piece], searched: set[Direction], conversation: Conversation) -> tuple[int, Resumed] | None:
    """How many pieces it took, and where to go on."""
    pickup = Pickup(conversation, searched, Pool())
    for number, piece in enumerate(chunks, 1):
        pickup.take(piece)
        if (resumed := pickup.resumed()) is not None:
            return number, resumed
    return None


def pieces(talk: Talk) -> list[Piece]:
    return [Piece(chunk.direction, chunk.at_ns, chunk.data) for chunk in talk.chunks]


def test_three_exchanges_that_fit_are_enough() -> None:
    resumed = found(pieces(lockstep(random.Random(1))), {*Direction}, Conversation(Routes()))
    assert resumed is not None
    number, where = resumed
    assert number == 6
    assert where.offsets == (0, 0)
    # nothing of them is lost
    assert where.pieces == pieces(lockstep(random.Random(1)))[:6]


def test_noise_is_never_picked_up() -> None:
    rng = random.Random(2)
    noise = [Piece(Direction(number % 2), number, rng.randbytes(3000)) for number in range(300)]
    assert found(noise, {*Direction}, Conversation(Routes())) is None


@given(seed=st.integers(0, 2**32), skipped=st.integers(1, 5000))
def test_frames_are_found_behind_any_beginning(seed: int, skipped: int) -> None:
    rng = random.Random(seed)
    one = a_talk(rng, 40, 3000)
    requests = one.streams()[0]
    begins = {sum(len(each.request) for each in one.calls[:number]) for number in range(41)}
    chunks, left = [], skipped
    for piece in pieces(one):
        cut = min(left, len(piece.data)) if piece.direction is Direction.REQUEST else 0
        left -= cut
        if len(piece.data) > cut:
            chunks.append(piece._replace(data=piece.data[cut:]))
    resumed = found(chunks, {*Direction}, Conversation(Routes()))
    if resumed is not None and skipped < len(requests):
        first = resumed[1].offsets[Direction.REQUEST]
        assert first is not None
        assert first + skipped in begins


def test_what_is_kept_is_bounded() -> None:
    pool = Pool()
    pickup = Pickup(Conversation(Routes()), {*Direction}, pool)
    for number in range(400):
        pickup.take(Piece(Direction.RESPONSE, number, bytes(60_000)))
        assert pool.used < 5 * 1024 * 1024
    pickup.forget()
    assert pool.used == 0
    assert pickup.ends == (0, 400 * 60_000)
