"""Which items of a list are shown, and in which order: the first, the last, the slowest, sorted ones."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any, TypeVar

import click

from proxy.wire.errors import OverBudget, in_bytes
from recorder.reading.exchanges import ROW_SIZE

Item = TypeVar("Item")
# the flags that say an order, with the field that each sorts by
_BY = {"slowest": "latency", "largest": "size"}


@dataclass(frozen=True, slots=True)
class Picking:
    """What is shown of a list.

    Attributes:
        field: what it is sorted by; None: the list's own order.
        descending: the greatest first.
        limit: the most items; None: all.
        from_end: the last items in place of the first.
    """

    field: str | None = None
    descending: bool = False
    limit: int | None = None
    from_end: bool = False

    def picked(self, items: Iterable[Item], value: Callable[[Item, str], Any], *, most: int) -> Iterator[Item]:
        """The items that are shown. Items without the value that they are sorted by come last.

        `value`: of a field. `most`: the limit in bytes of memory. Errors: OverBudget; those of `items`.
        """
        if self.from_end and self.limit is not None:
            _check(self.limit, most)
            yield from deque(items, self.limit)
        elif self.field is None:
            yield from islice(items, self.limit)
        else:
            name = self.field
            keyed = ((value(item, name), number, item) for number, item in enumerate(items))
            yield from (item for _, _, item in self._sorted(keyed, most))

    def _sorted(self, keyed: Iterable[tuple[Any, int, Item]], most: int) -> list[tuple[Any, int, Item]]:
        def key(entry: tuple[Any, int, Item]) -> tuple[bool, Any, int]:
            found, number, _ = entry
            # among equals, the first one comes first
            return found is not None, found if found is not None else 0, -number

        def ascending(entry: tuple[Any, int, Item]) -> tuple[bool, Any, int]:
            found, number, _ = entry
            return found is None, found if found is not None else 0, number

        if self.limit is not None:
            _check(self.limit, most)
            chosen = heapq.nlargest(self.limit, keyed, key) if self.descending else None
            return chosen if chosen is not None else heapq.nsmallest(self.limit, keyed, ascending)
        kept = []
        for entry in keyed:
            kept.append(entry)
            _check(len(kept), most)
        return sorted(kept, key=key, reverse=True) if self.descending else sorted(kept, key=ascending)


def _check(items: int, most: int) -> None:
    if items * ROW_SIZE > most:
        raise OverBudget(f"sorting {items} lines makes more than {in_bytes(most)}")


def picking(
    *,
    last: int | None,
    limit: int | None,
    sort: str | None = None,
    slowest: int | None = None,
    largest: int | None = None,
    follow: bool = False,
) -> Picking:
    """What the flags of a command ask for. Errors: click.UsageError for flags that contradict each other."""
    orders = {"--sort": sort, "--slowest": slowest, "--largest": largest, "--last": last}
    given = [flag for flag, value in orders.items() if value is not None]
    given += ["--limit"] if limit is not None and given and given != ["--sort"] else []
    if len(given) > 1:
        raise click.UsageError(f"{' and '.join(given)} ask for different lists: right would be one of them")
    if follow and given and given != ["--last"]:
        raise click.UsageError(f"{given[0]} orders a whole list, which has no end with --follow: right is one of both")
    for flag, number in (("slowest", slowest), ("largest", largest)):
        if number is not None:
            return Picking(_BY[flag], descending=True, limit=number)
    if last is not None:
        return Picking(limit=last, from_end=True)
    if sort is not None:
        return Picking(sort.removeprefix("-"), sort.startswith("-"), limit)
    return Picking(limit=limit)
