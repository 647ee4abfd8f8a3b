"""Commits prepared changes of settings: all of them, or none. `reloading.py` and the workers use it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from logging import ERROR

from proxy.log import log


def do_nothing() -> None:
    """Does nothing."""


@dataclass(frozen=True, slots=True)
class Change:
    """One prepared change. Its functions don't wait, and raise only by a fault of the program.

    apply: puts the change into effect.
    undo: restores the former state.
    drop: releases prepared resources (open sockets). Called if the change was never applied, or was undone.
    """

    apply: Callable[[], None]
    undo: Callable[[], None]
    drop: Callable[[], None] = do_nothing


def commit(changes: Sequence[Change]) -> bool:
    """Applies all changes, in their order. Returns True if they are in effect.

    If one raises, undoes it and those before it, drops all changes, and returns False.
    """
    applied: list[Change] = []
    try:
        for change in changes:
            # appended first: a change that raises may be half applied, so it is undone too
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
    """Drops all changes: none of them will take effect."""
    for change in changes:
        change.drop()
