"""Tests of claimed principals, and of the responses that accept them."""

from __future__ import annotations

import pytest

from proxy.conversation.exchange import Direction
from recorder.capture import claims as module
from recorder.capture.claims import Accepted, Claims
from tests.recorder.capture.traffic import framed


def plain(name: str) -> bytes:
    return f"\0{name}\0secret".encode()


@pytest.fixture
def claims() -> Claims:
    begun = Claims()
    begun.begin_login("PLAIN")
    return begun


def test_a_token_without_a_handshake_names_no_principal() -> None:
    claims = Claims()
    claims.take_client_token(plain("alice"), 1)
    assert claims.take_answer(b"", 1) is None


def test_an_answer_accepts_the_token_of_its_own_exchange(claims: Claims) -> None:
    claims.take_client_token(plain("alice"), 1)
    claims.take_client_token(plain("bob"), 2)
    assert claims.take_answer(b"", 1) == Accepted("alice", "PLAIN")
    assert claims.take_answer(b"", 1) is None
    assert claims.take_answer(b"", 2) == Accepted("bob", "PLAIN")


def test_an_answer_to_an_unseen_request_accepts_no_claim_and_drops_none(claims: Claims) -> None:
    claims.take_client_token(plain("alice"), 2)
    assert claims.take_answer(b"", 1) is None
    assert claims.take_answer(b"", 2) == Accepted("alice", "PLAIN")


def test_a_name_of_an_earlier_login_does_not_count_in_the_next(claims: Claims) -> None:
    claims.begin_login("SCRAM-SHA-256")
    claims.take_client_token(b"n,,n=alice,r=nonce", 1)
    assert claims.take_answer(b"r=nonce,s=salt,i=4096", 1) is None
    claims.begin_login("SCRAM-SHA-256")
    claims.take_client_token(b"c=biws,r=nonce,p=proof", 2)
    assert claims.take_answer(b"v=verifier", 2) is None


def test_too_many_unanswered_tokens_name_no_principal(claims: Claims) -> None:
    for exchange in range(module.MAX_UNANSWERED + 1):
        claims.take_client_token(plain("alice"), exchange)
    assert [claims.take_answer(b"", exchange) for exchange in range(5)] == [None] * 5
    claims.begin_login("PLAIN")
    claims.take_client_token(plain("bob"), 99)
    assert claims.take_answer(b"", 99) == Accepted("bob", "PLAIN")


def test_bare_tokens_are_gathered_in_both_directions_at_once(claims: Claims) -> None:
    asked, answered = framed(plain("alice")), framed(b"")
    pieces = [(Direction.REQUEST, asked[:7], False), (Direction.RESPONSE, answered[:2], False)]
    pieces += [(Direction.REQUEST, asked[7:], True), (Direction.RESPONSE, answered[2:], True)]
    told = [claims.take_bare_piece(direction, piece, is_last=last) for direction, piece, last in pieces]
    assert told == [None, None, None, Accepted("alice", "PLAIN")]


def test_a_token_that_is_too_long_is_dropped_and_its_login_names_no_principal(claims: Claims) -> None:
    piece = bytes(module.LONGEST_TOKEN // 2 + 1)
    for last in (False, False, True):
        claims.take_bare_piece(Direction.REQUEST, piece, is_last=last)
        assert sum(map(len, claims._parts)) <= module.LONGEST_TOKEN
    assert claims.take_bare_piece(Direction.RESPONSE, framed(b""), is_last=True) is None
