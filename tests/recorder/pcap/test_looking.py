"""Tests of what tells connections apart that speak Kafka."""

from __future__ import annotations

import random
from collections.abc import Sequence

from recorder.pcap.layers import Endpoint, Segment, segment
from recorder.pcap.looking import Found, Looking
from recorder.pcap.pool import Pool
from tests.recorder.pcap.dumps import BROKER, RAW, Sent, sent
from tests.recorder.pcap.imports import a_talk, lockstep


def looked_at(segments: Sequence[Sent], pool: Pool | None = None) -> tuple[int, Endpoint | Found]:
    """How many packets it took, and what was found."""
    looking = Looking(pool or Pool())
    found: Endpoint | Found = Found.UNKNOWN
    number = 0
    while found is Found.UNKNOWN and number < len(segments):
        read = segment(RAW, segments[number].ip())
        assert isinstance(read, Segment)
        found, number = looking.take(read, segments[number].at_ns), number + 1
    looking.forget()
    return number, found


def test_the_first_request_tells_the_broker() -> None:
    number, found = looked_at(sent(lockstep(random.Random(1))))
    assert number == 4
    assert str(found) == f"{BROKER[0]}:{BROKER[1]}"


def test_of_an_older_connection_the_first_exchange_does() -> None:
    pool = Pool()
    number, found = looked_at(sent(lockstep(random.Random(1)), handshake=False)[1:], pool)
    assert str(found) == f"{BROKER[0]}:{BROKER[1]}"
    assert number < 12
    assert pool.used == 0


def test_of_one_whose_segments_begin_anywhere_two_answers_do() -> None:
    _, found = looked_at(sent(a_talk(random.Random(5), 60), handshake=False)[33:])
    assert str(found) == f"{BROKER[0]}:{BROKER[1]}"


def test_a_request_in_pieces_is_still_one() -> None:
    _, found = looked_at(sent(a_talk(random.Random(2)), mtu=3))
    assert str(found) == f"{BROKER[0]}:{BROKER[1]}"
