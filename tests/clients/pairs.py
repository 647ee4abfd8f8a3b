"""Pairs conversations of both sides when several would fit, because beginnings of conversations are alike."""

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

One = TypeVar("One")
Other = TypeVar("Other")


def pairs(
    ones: Sequence[One],
    others: Sequence[Other],
    fits: Callable[[One, Other], bool],
    *,
    must: Callable[[One], bool],
    must_other: Callable[[Other], bool],
) -> list[tuple[One, Other]]:
    """Chooses pairs that fit, so that everybody who must have a partner has one, if that is possible.

    Alternating paths (Kuhn): an item with a partner may get another one in favour of a third. Items of one side that
    must have a partner come first, then those of the other side, which take no partner away from the first side.
    """
    fitting = {i: [j for j, other in enumerate(others) if fits(one, other)] for i, one in enumerate(ones)}
    holders: dict[int, int] = {}
    for i in fitting:
        if must(ones[i]):
            _find(i, fitting, holders, lambda _: False, set())
    found = {i: j for j, i in holders.items()}
    wanted = {j: [i for i, fit in fitting.items() if j in fit] for j in range(len(others))}
    for j in wanted.keys() - holders.keys():
        if must_other(others[j]):
            _find(j, wanted, found, lambda held: not must_other(others[held]), set())
    return [(ones[i], others[j]) for i, j in found.items()]


def _find(
    one: int,
    fitting: Mapping[int, Sequence[int]],
    holders: dict[int, int],
    may_leave: Callable[[int], bool],
    tried: set[int],
) -> bool:
    for other in fitting[one]:
        if other in tried:
            continue
        tried.add(other)
        holder = holders.get(other)
        if holder is None or may_leave(holder) or _find(holder, fitting, holders, may_leave, tried):
            holders[other] = one
            return True
    return False
