"""Tests of putting segments in order: what waits, for how long, and how much memory it takes."""

from __future__ import annotations

import random
from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from proxy.conversation import Direction
from recorder.pcap.layers import ACK, FIN, PSH, SYN, Endpoint, Segment
from recorder.pcap.pool import Pool
from recorder.pcap.tcp import Piece, Reassembly

ENDS = Endpoint(b"\0\0\0\1", 1), Endpoint(b"\0\0\0\2", 2)
REQUEST, RESPONSE = Direction


def one(direction: Direction, number: int, acknowledged: int, data: bytes = b"", flags: int = ACK | PSH) -> Segment:
    return Segment(ENDS[direction], ENDS[1 - direction], number % 2**32, acknowledged % 2**32, flags, data, 0)


def taken(segments: Sequence[tuple[Direction, Segment]], pool: Pool | None = None) -> list[Piece]:
    reassembly = Reassembly(pool or Pool())
    pieces = [
        piece for at, (direction, segment) in enumerate(segments) for piece in reassembly.take(direction, segment, at)
    ]
    return [*pieces, *reassembly.finish()]


OPENING = [
    (REQUEST, one(REQUEST, 99, 0, flags=SYN)),
    (RESPONSE, one(RESPONSE, 499, 100, flags=SYN | ACK)),
]


def test_a_response_waits_for_the_request_that_it_acknowledges() -> None:
    pieces = taken([*OPENING, (RESPONSE, one(RESPONSE, 500, 104, b"pong")), (REQUEST, one(REQUEST, 100, 500, b"ping"))])
    assert [(piece.direction, piece.data) for piece in pieces] == [(REQUEST, b"ping"), (RESPONSE, b"pong")]
    # the response was there when its request had come
    assert [piece.at_ns for piece in pieces] == [3, 3]


def test_what_only_the_acknowledgement_shows_is_lost_before_what_answers_it() -> None:
    pieces = taken([*OPENING, (RESPONSE, one(RESPONSE, 500, 104, b"pong"))])
    assert [(piece.direction, piece.data, piece.lost) for piece in pieces] == [
        (REQUEST, b"", 4),
        (RESPONSE, b"pong", 0),
    ]


def test_bytes_that_the_peer_has_are_not_waited_for_long() -> None:
    later = [(REQUEST, one(REQUEST, 200 + at, 500, b"x")) for at in range(100)]
    confirmed = (RESPONSE, one(RESPONSE, 500, 300, b""))
    reassembly, pieces = Reassembly(Pool()), list[Piece]()
    for direction, segment in [*OPENING, confirmed, *later]:
        pieces += reassembly.take(direction, segment, 0)
    assert pieces[0] == Piece(REQUEST, 0, lost=100)
    assert b"".join(piece.data for piece in pieces[1:]) == b"x" * 100


def test_a_piece_that_overlaps_is_cut_where_the_stream_is() -> None:
    pieces = taken(
        [*OPENING, (REQUEST, one(REQUEST, 100, 500, b"abcd")), (REQUEST, one(REQUEST, 102, 500, b"cdef", ACK | FIN))]
    )
    assert b"".join(piece.data for piece in pieces) == b"abcdef"
    assert pieces[-1] == Piece(REQUEST, 3)


@given(seed=st.integers(0, 2**32), begin=st.sampled_from([0, 2**32 - 50, 2**31 - 20]))
def test_numbers_may_wrap_around_anywhere(seed: int, begin: int) -> None:
    rng = random.Random(seed)
    whole = rng.randbytes(200)
    segments = [(REQUEST, one(REQUEST, begin - 1, 0, flags=SYN))]
    cuts = sorted(rng.sample(range(1, 200), 9))
    parts = [
        (REQUEST, one(REQUEST, begin + at, 0, whole[at:to])) for at, to in zip([0, *cuts], [*cuts, 200], strict=True)
    ]
    rng.shuffle(parts)
    assert b"".join(piece.data for piece in taken([*segments, *parts])) == whole


def test_memory_is_bounded_by_one_connection_and_by_all() -> None:
    pool, piece = Pool(), bytes(60_000)
    reassembly = Reassembly(pool)
    most = 0
    for segment in (one(REQUEST, 99, 0, flags=SYN), *(one(REQUEST, 101 + 60_000 * at, 0, piece) for at in range(300))):
        # the byte with the number 100 never comes
        for _ in reassembly.take(REQUEST, segment, 0):
            pass
        most = max(most, pool.used)
    assert 1_000_000 < most < 5 * 1024 * 1024
    pool = Pool()
    for number in range(200):
        reassembly = Reassembly(pool)
        for at in (0, *range(2, 60)):
            for _ in reassembly.take(REQUEST, one(REQUEST, 100 + 60_000 * at, 0, piece, ACK), number):
                pass
    assert pool.used < 300 * 1024 * 1024
