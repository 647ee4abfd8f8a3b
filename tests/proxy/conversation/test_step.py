"""Tests of the bytes that leave after a step, with edits."""

from __future__ import annotations

from proxy.conversation import Edit, Step


def sent(step: Step) -> bytes:
    return b"".join(map(bytes, step.outgoing()))


def test_an_untouched_chunk_leaves_as_the_very_object_that_came() -> None:
    data = b"0123456789"
    assert Step(data, 100).outgoing()[0] is data


def test_held_back_bytes_do_not_leave() -> None:
    step = Step(b"0123456789", 100)
    step.stop = 7
    assert (sent(step), step.unclassified) == (b"0123456", 3)


def test_edits_replace_remove_and_insert_in_the_order_of_their_places() -> None:
    step = Step(b"0123456789", 100)
    step.edits += [Edit(7, 8, b"seven"), Edit(0, 2, b""), Edit(5, 5, b"|")]
    assert sent(step) == b"234|56seven89"


def test_edits_at_one_place_keep_their_order() -> None:
    step = Step(b"ab", 0)
    step.edits += [Edit(1, 1, b"1"), Edit(1, 1, b"2")]
    assert sent(step) == b"a12b"
