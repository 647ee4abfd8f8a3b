"""Tests of a dict with limited room."""

from __future__ import annotations

from recorder.bounded import LETTERS, Bounded


def test_names_as_long_as_peers_like_take_no_more_room_than_many_usual_ones() -> None:
    bounded: Bounded[tuple[str, int], tuple[str, None]] = Bounded(100)
    for number in range(500):
        bounded["x" * 10_000, number] = "name", None
        # what is set again is no more than it was
        bounded["x" * 10_000, number] = "name", None
    assert len(bounded) == 100 * LETTERS // 10_000
    assert bounded.forgotten == 500 - len(bounded)
    for number in range(500):
        bounded["usual", number] = "name", None
    assert len(bounded) == 100


def test_what_is_used_is_kept_and_what_is_taken_is_not_forgotten() -> None:
    bounded: Bounded[str, list[str]] = Bounded(2)
    for name in ("a", "b", "a", "c"):
        bounded.use(name, list).append(name)
    assert bounded == {"a": ["a", "a"], "c": ["c"]}
    assert (bounded.take("a"), bounded.take("b")) == (["a", "a"], None)
    bounded["d"] = []
    assert (list(bounded), bounded.forgotten) == (["c", "d"], 1)


def test_a_value_that_grows_is_measured_when_it_is_set_again() -> None:
    bounded: Bounded[str, list[int]] = Bounded(100, size=lambda of: len(of[1]), room=10)
    bounded["old"] = [1, 2, 3]
    grown = bounded["new"] = [1]
    for _ in range(6):
        grown.append(1)
        bounded["new"] = grown
    assert list(bounded) == ["old", "new"]
    grown.append(1)
    bounded["new"] = grown
    assert (list(bounded), bounded.forgotten) == (["new"], 1)


def test_what_is_larger_than_all_the_room_is_not_kept_and_what_is_there_stays() -> None:
    bounded: Bounded[str, list[int]] = Bounded(100, size=lambda of: len(of[1]), room=10)
    bounded["old"], bounded["new"] = [1, 2, 3], [1]
    # one that was there has grown
    for key in ("next", "new"):
        bounded[key] = [1] * 11
    assert (list(bounded), bounded.forgotten) == (["old"], 2)
    bounded["next"] = [1] * 7
    assert list(bounded) == ["old", "next"]
