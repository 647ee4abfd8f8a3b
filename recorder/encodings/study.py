"""The rows of the table `encodings`, summed by api and side, and by field over all its versions.

A field's best and worst encoding may differ between versions, so one field may have several.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from recorder.encodings.document import CONTRADICTIONS, FIGURES
from recorder.encodings.times import Chosen, Timed

# the sizes in each row, in the order of the table's columns
SIZES = ("fixed", "signed", "unsigned", "best", "worst")
Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Taken:
    """The bytes of an api's requests or responses (`side`), or of one of their fields (`path`).

    `sizes`: bytes by the names in SIZES. `sent`: bytes of the bodies as they were sent; None for a field. `best`,
    `worst`: the encodings of a field.
    """

    api: str
    side: str
    path: str | None
    versions: tuple[int, ...]
    messages: int
    sizes: Mapping[str, int]
    sent: int | None = None
    best: tuple[str, ...] = ()
    worst: tuple[str, ...] = ()

    @property
    def saved(self) -> int:
        """The bytes that the best encoding saves against the fixed one."""
        return self.sizes["fixed"] - self.sizes["best"]

    def ratio(self, name: str) -> float:
        """The bytes in another encoding, as a ratio to those in the fixed one."""
        return self.sizes[name] / self.sizes["fixed"] if self.sizes["fixed"] else 1.0


@dataclass(frozen=True, slots=True)
class Study:
    """The whole study. `bodies`: the largest first. `fields`: the largest saving first. `unread`: frames by reason."""

    bodies: Sequence[Taken]
    fields: Sequence[Taken]
    unread: Mapping[str, int] = field(default_factory=dict)
    times: Sequence[Timed] = ()

    @property
    def total(self) -> Taken:
        """The sums over all bodies."""
        sizes = {name: sum(one.sizes[name] for one in self.bodies) for name in SIZES}
        sent = sum(one.sent or 0 for one in self.bodies)
        return Taken("all", "", None, (), sum(one.messages for one in self.bodies), sizes, sent)

    def as_json(self) -> dict[str, Any]:
        """The study and the document's own figures, ready for JSON."""
        document = {"figures": [one._asdict() for one in FIGURES], "contradictions": CONTRADICTIONS}
        lists = {
            name: [asdict(one) for one in found] for name, found in (("bodies", self.bodies), ("fields", self.fields))
        }
        times = [one._asdict() for one in self.times]
        return {"total": asdict(self.total), **lists, "times": times, "unread": dict(self.unread), "document": document}


def study(rows: Iterable[Row], unread: Mapping[str, int], times: Sequence[Timed] = ()) -> Study:
    """The study of rows of ENCODINGS."""
    alike: dict[tuple[str, str, str | None], list[Row]] = defaultdict(list)
    for row in rows:
        alike[row["api"], row["side"], row["path"]].append(row)
    found = [_summed(*of, some) for of, some in alike.items()]
    bodies = sorted((one for one in found if one.path is None), key=lambda one: -one.sizes["fixed"])
    fields = sorted(
        (one for one in found if one.path is not None), key=lambda one: (-one.saved, one.api, one.path or "")
    )
    return Study(bodies, fields, unread, times)


def _summed(api: str, side: str, path: str | None, rows: Sequence[Row]) -> Taken:
    sizes = {name: sum(row[f"{name}_bytes"] for row in rows) for name in SIZES}
    versions = tuple(sorted(row["api_version"] for row in rows))
    sent = sum(row["sent_bytes"] for row in rows) if path is None else None
    best, worst = (tuple(sorted({row[name] for row in rows if row[name]})) for name in ("best", "worst"))
    return Taken(api, side, path, versions, sum(row["messages"] for row in rows), sizes, sent, best, worst)


def chosen(rows: Iterable[Row]) -> dict[tuple[str, str, int], Chosen]:
    """The best and the worst encoding of each field, by api, side and version."""
    found: dict[tuple[str, str, int], Chosen] = defaultdict(lambda: Chosen({}, {}))
    for message, path, best, worst in _fields(rows):
        found[message].best[path] = best
        found[message].worst[path] = worst
    return found


def _fields(rows: Iterable[Row]) -> Iterator[tuple[tuple[str, str, int], str, str, str]]:
    for row in rows:
        if row["path"] is not None:
            yield (row["api"], row["side"], row["api_version"]), row["path"], row["best"], row["worst"]
