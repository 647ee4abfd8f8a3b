"""Changes of settings: all are applied, or none."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from logging import ERROR

from proxy.log import log


def do_nothing() -> None:
    """Does nothing."""


@dataclass(frozen=True, slots=True)
class Change:
    """One change that has been prepared. None of its functions waits or fails.

    apply: puts the change into effect.
    undo: puts the former state into effect again.
    drop: gives back what has been prepared for a change that will never be applied.
    """

    apply: Callable[[], None]
    undo: Callable[[], None]
    drop: Callable[[], None] = do_nothing


def commit(changes: Sequence[Change]) -> bool:
    """Applies all changes, in their order; returns whether they are in effect. If one fails, by a fault, none is."""
    applied: list[Change] = []
    try:
        for change in changes:
            applied.append(change)
            change.apply()
    except Exception:
        log(ERROR, "settings stay as they are: a fault", trace=True)
        for change in reversed(applied):
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
    """Drops all changes, which will never be applied."""
    for change in changes:
        change.drop()
