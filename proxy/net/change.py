"""Things that are to be different: made together, or none of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from logging import ERROR

from proxy.log import log


def nothing_else() -> None:
    """Nothing more is to be done."""


@dataclass(frozen=True, slots=True)
class Change:
    """One thing that is to be different. None of these waits or fails.

    make: it is from now on.
    undo: it is again what it was.
    drop: it will never be made: gives back what has been prepared for it.
    """

    make: Callable[[], None]
    undo: Callable[[], None]
    drop: Callable[[], None] = nothing_else


def commit(changes: Sequence[Change]) -> bool:
    """Makes all changes, in their order; whether they are made. If one is not, by a fault, none is."""
    made: list[Change] = []
    try:
        for change in changes:
            made.append(change)
            change.make()
    except Exception:
        log(ERROR, "settings stay as they are: a fault", trace=True)
        for change in reversed(made):
            _undo(change)
        drop(changes)
        return False
    return True


def _undo(change: Change) -> None:
    try:
        change.undo()
    except Exception:
        log(ERROR, "a fault: a setting may have changed", trace=True)


def drop(changes: Sequence[Change]) -> None:
    """None of them will be made."""
    for change in changes:
        change.drop()
