"""What is in effect, and where it comes from: a list for people, or a file of settings that says the same."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby

from proxy.schema.faults import KeyPath
from proxy.schema.flags import CLUSTERS
from proxy.schema.toml import dotted, toml
from proxy.settings.reader import Effective
from proxy.settings.sources import From

HIDDEN = "(hidden)"


def listing(effective: Iterable[Effective]) -> Iterator[str]:
    """A line for each key, with what gave it its value; the columns are lined up."""
    rows = [
        (f"{dotted(one.place)}{': ' if one.value is None else ' = '}{_value(one)}", _origin(one)) for one in effective
    ]
    width = max((len(left) for left, _ in rows), default=0)
    for left, origin in rows:
        yield f"{left:{width}}  {origin}"


def as_file(effective: Iterable[Effective]) -> Iterator[str]:
    """The settings as TOML for `--config`. Keys without a value, and secrets, are comments."""
    for table, keys in groupby(effective, key=_table):
        if table:
            yield ""
            yield f"[{dotted(table)}]"
        for one in keys:
            name = dotted(one.place[len(table) :])
            is_comment = one.value is None or one.key.secret
            shown = f"# {name}: {_value(one)}" if is_comment else f"{name} = {_value(one)}"
            yield f"{shown}  # {_origin(one)}"


def _table(one: Effective) -> KeyPath:
    """The table that a key stands in: the outermost one, so that what belongs together stays so."""
    return one.place[: 2 if one.place[0] == CLUSTERS else min(1, len(one.place) - 1)]


def _value(one: Effective) -> str:
    if one.value is None:
        return one.key.unset
    return HIDDEN if one.key.secret else toml(one.key.kind.written(one.value))


def _origin(one: Effective) -> str:
    return one.by.value if one.by is From.DEFAULT else f"{one.by.value} {one.where}"
