"""What was given -> values: all of it, or a line for everything that is wrong with it.

Each dataclass is a section: its keys are looked up below a place, read by their kinds, and handed to its constructor,
which has the last word. What nobody has looked up in the end is no setting.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any, NamedTuple

from proxy.config import MAIN, BadSetting
from proxy.settings import wording
from proxy.settings.keys import Key, Known, Place, keys_of
from proxy.settings.kinds import Kind, Misread
from proxy.settings.sources import From, Given, Source


class Effective(NamedTuple):
    """A key with the value that it has; None: it is not set. `where` says who gave it: "wiretap.toml", "--listen"."""

    place: Place
    key: Key
    value: Any
    by: From
    where: str


class Reader:
    """Reads sections of a source one after the other. `wrong`: a line for each error; `effective`: each key's value."""

    def __init__(self, source: Source, *, in_file: bool) -> None:
        self.wrong: list[str] = []
        self.effective: list[Effective] = []
        self._source = source
        self._in_file = in_file
        self._keys: dict[Place, Key] = {}
        # places that hold keys
        self._tables: set[Place] = set()

    def section(self, settings: type, place: Place, **more: Any) -> Any | None:
        """One section's value; None if something is wrong with it. `more`: fields that are no keys."""
        before = len(self.wrong)
        values = self.values(settings, place) | more
        return None if len(self.wrong) > before else self.made(settings, values)

    def values(self, settings: type, place: Place = ()) -> dict[str, Any]:
        """What was given for a section, by field."""
        values: dict[str, Any] = {}
        for known in keys_of(settings).values():
            self._read(known, (*place, *known.key.place), values)
        return values

    def made(self, settings: type, values: dict[str, Any]) -> Any | None:
        """What a constructor makes of these values; None if they don't fit together."""
        try:
            return settings(**values)
        except ValueError as error:
            lines = error.lines if isinstance(error, BadSetting) else (str(error),)
            cluster = str(values.get("name", MAIN))
            self.wrong += [wording.retold(line, cluster, in_file=self._in_file) for line in lines]
        return None

    def finish(self, tables: Iterable[Place]) -> None:
        """Says what has not been asked for. `tables`: those that are known, whether or not their keys were."""
        self._tables.update(tables)
        for place, given in self._source.given.items():
            if place in self._tables:
                shown = wording.dotted(place)
                self._say(f"{shown} = {wording.toml(given.raw)} stands where a table belongs; right would be [{shown}]")
            elif place not in self._keys:
                self._unknown(place, given)
        for place, given in self._source.beaten:
            if place in self._keys:
                self._check(self._keys[place], place, given)
        for place in sorted(self._source.tables):
            if place in self._keys:
                right = f"{wording.dotted(place)} = {wording.toml(self._keys[place].example)}"
                self._say(f"[{wording.dotted(place)}] is a table where a value should stand; right would be {right}")
            elif place not in self._tables:
                self._unknown(place, None)

    def _read(self, known: Known, place: Place, values: dict[str, Any]) -> None:
        """Looks one key up, and puts its value where the constructor wants it."""
        self._tables.update(place[:size] for size in range(1, len(place)))
        if known.key.each is not None:
            self._tables.add(place)
            values[known.field] = self._table(known, place, known.key.each)
            return
        self._keys[place] = known.key
        given = self._source.given.get(place)
        if given is not None:
            values[known.field] = self._value(known.key, place, given)
        elif known.is_required:
            self.wrong.append(wording.missing(place, known.key, in_file=self._in_file))
        else:
            self.effective.append(Effective(place, known.key, known.default, From.DEFAULT, ""))

    def _value(self, key: Key, place: Place, given: Given) -> Any:
        value = self._check(key, place, given)
        self.effective.append(Effective(place, key, value, given.by, given.where))
        return value

    def _check(self, key: Key, place: Place, given: Given) -> Any:
        """The value; None if it is none, which is said."""
        try:
            return key.kind.read(given.raw)
        except Misread as error:
            self.wrong.append(wording.wrong_value(place, key, given, str(error)))
            return None

    def _table(self, known: Known, place: Place, names: Kind) -> dict[Any, Any]:
        """A table of values that all are of one kind."""
        found = {}
        for below, given in self._source.given.items():
            if below[:-1] != place:
                continue
            self._keys[below] = known.key
            try:
                found[names.read(below[-1])] = self._value(known.key, below, given)
            except Misread as error:
                right = wording.dotted((*known.key.place, "1"))
                self.wrong.append(
                    f"{wording.dotted(below)}: {below[-1]!r} {error}; "
                    f"right would be {right} = {wording.toml(known.key.example)}"
                )
        if not found:
            self.effective.append(Effective(place, known.key, None, From.DEFAULT, ""))
        return found

    def _unknown(self, place: Place, given: Given | None) -> None:
        """Says it of the first name in the place that isn't one, however much stands below it."""
        size = next(size for size in range(1, len(place) + 1) if place[:size] not in self._tables)
        if place[:size] in self._keys:
            return
        near = {known for known in (*self._keys, *self._tables) if known[: size - 1] == place[: size - 1]}
        names = {known[size - 1] for known in near if len(known) >= size}
        nearest = get_close_matches(place[size - 1], sorted(names), n=1, cutoff=0.5)
        if nearest:
            right = (*place[: size - 1], *nearest)
            self._say(wording.unknown(place[:size], given, right, self._keys.get(right)))
        else:
            self._say(wording.nothing_like(place[:size], given, sorted(names)))

    def _say(self, line: str) -> None:
        if line not in self.wrong:
            self.wrong.append(line)
