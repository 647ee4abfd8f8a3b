"""The known name that was probably meant by a wrong one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches

# longer names are compared by their first letters only: the comparison's time grows with the square of the length
MAX_COMPARED = 64
LIKELY = 0.6


def nearest(name: str, names: Iterable[str], *, likeness: float = 0.5) -> str | None:
    """The one of `names` that is most like `name`; None if none is similar.

    `likeness`: from 0 to 1; among short names a half is chance.
    """
    return next(iter(get_close_matches(name[:MAX_COMPARED], [*names], n=1, cutoff=likeness)), None)


def right_would_be(name: str, names: Sequence[str]) -> str:
    """The end of an error's sentence about a wrong name: the name that was probably meant, and all names."""
    near, every = nearest(name, names, likeness=LIKELY), ", ".join(names)
    return f"right would be {every}" if near is None else f"did you mean {near}? There are {every}"
