"""The assertions of checks."""

from __future__ import annotations

from typing import Any


class Finding(AssertionError):
    """Something that must hold did not."""


def must(holds: bool, what: str) -> None:
    """Raises Finding unless it holds."""
    if not holds:
        raise Finding(what)


def same(found: Any, wanted: Any, what: str) -> None:
    """Equal, not-a-numbers included."""
    if found != wanted and repr(found) != repr(wanted):
        raise Finding(f"{what}: {found!r} is not {wanted!r}")
