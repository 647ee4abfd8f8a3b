"""What was given -> values: all of it, or a line for everything that is wrong with it.

Each dataclass is a section: its keys are looked up below a place, read by their kinds, and handed to its constructor,
which has the last word. What nobody has looked up in the end is no setting.

Where a value is wrong or missing, the constructor gets a right one in its stead, so that it can say what else does not
fit together. A fault of the constructor's that speaks of such a key is left out: it may be about the stand-in.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from difflib import get_close_matches
from functools import lru_cache
from typing import Any, NamedTuple

from proxy.schema.errors import BadSetting, Misread
from proxy.schema.faults import Fault, KeyPath, line_of
from proxy.schema.flags import MAIN
from proxy.schema.keys import Key, KeyedField, keys_of
from proxy.schema.kinds import Kind, cut
from proxy.schema.toml import dotted, toml
from proxy.settings import wording
from proxy.settings.sources import From, Given, Source

# letters of a name that are compared with those of names that there are
MAX_COMPARED = 64
# longer lines are cut: names and values may be of any length
LONGEST_LINE = 1000


class Effective(NamedTuple):
    """A key with the value that it has; None: it is not set. `where` says who gave it: "wiretap.toml", "--listen"."""

    place: KeyPath
    key: Key
    value: Any
    by: From
    where: str


class Section(NamedTuple):
    """The result of reading a section.

    Args:
        value: None if anything is wrong with it.
        draft: likewise, with stand-ins for what is wrong or missing; None if the rest does not fit together either.
        right: the fields that were given and are right, with their values.
        wrong: the places of keys that are wrong or missing.
    """

    value: Any | None
    draft: Any | None
    right: Mapping[str, Any]
    wrong: Sequence[KeyPath]


class _Values(NamedTuple):
    """A section's fields while they are looked up."""

    right: dict[str, Any]
    stand_ins: dict[str, Any]
    wrong: list[KeyPath]


class SettingsReader:
    """Reads sections of a source one after the other. `effective`: each key's value, as far as it is right."""

    def __init__(self, source: Source, *, in_file: bool) -> None:
        self.effective: list[Effective] = []
        self._source = source
        self._in_file = in_file
        # each line once, in the order in which they were said
        self._wrong: dict[str, None] = {}
        self._keys: dict[KeyPath, Key] = {}
        # places that hold keys, and the names that are known in each
        self._tables: set[KeyPath] = {()}
        self._names: dict[KeyPath, set[str]] = {}
        self._add(*source.wrong)

    @property
    def wrong(self) -> list[str]:
        """A line for each thing that is wrong so far."""
        return [*self._wrong]

    def section(self, settings: type, place: KeyPath = (), *parts: Section, **more: Any) -> Section:
        """Reads one section.

        Args:
            parts: sections within it, whose drafts are among its fields.
            more: fields that are no keys.
        """
        values = self._look_up(settings, place)
        wrong = [*values.wrong, *(place for part in parts for place in part.wrong)]
        draft = self.construct(settings, {**values.stand_ins, **values.right, **more}, wrong)
        return Section(None if wrong else draft, draft, values.right, wrong)

    def values(self, settings: type) -> Mapping[str, Any]:
        """The right values of the keys at the top, by field."""
        return self._look_up(settings, ()).right

    def construct(self, settings: type, values: Mapping[str, Any], wrong: Sequence[KeyPath] = ()) -> Any | None:
        """The dataclass of these values; None if they don't fit together. `wrong`: keys with stand-ins."""
        cluster = str(values.get("name", MAIN))
        try:
            return settings(**values)
        except BadSetting as error:
            self.say(*(fault for fault in error.faults if not _speaks_of_any(fault, wrong, cluster)), cluster=cluster)
        except ValueError as error:
            self.say(str(error))
        return None

    def say(self, *faults: Fault | str, cluster: str = MAIN) -> None:
        """Notes what is wrong. `cluster`: whose settings they are."""
        self._add(*(line_of(fault, cluster, in_file=self._in_file) for fault in faults))

    def finish(self, tables: Iterable[KeyPath]) -> None:
        """Says what has not been asked for. `tables`: those that are known, whether or not their keys were."""
        for place in tables:
            self._know_table(place)
        for place, given in self._source.given.items():
            if place in self._tables:
                shown, raw = wording.named(place), wording.as_written(given.raw)
                self._add(f"{shown} = {raw} stands where a table belongs; right would be [{shown}]")
            elif place not in self._keys:
                self._unknown(place, given)
        for place, given in self._source.overridden:
            if place in self._keys:
                with suppress(Misread):
                    self._check(self._keys[place], place, given)
        for place in sorted(self._source.tables):
            if place in self._keys:
                right = f"{dotted(place)} = {toml(self._keys[place].example)}"
                self._add(f"[{dotted(place)}] is a table where a value should stand; right would be {right}")
            elif place not in self._tables:
                self._unknown(place, None)

    def _add(self, *lines: str) -> None:
        self._wrong |= dict.fromkeys(cut(_one_line(line), LONGEST_LINE) for line in lines)

    def _look_up(self, settings: type, place: KeyPath) -> _Values:
        values = _Values({}, {}, [])
        for field in keys_of(settings).values():
            self._read(field, (*place, *field.key.place), values)
        return values

    def _read(self, field: KeyedField, place: KeyPath, values: _Values) -> None:
        """Looks one key up, and puts its value where the constructor wants it."""
        for size in range(1, len(place)):
            self._know_table(place[:size])
        if field.key.name_kind is not None:
            self._know_table(place)
            values.right[field.name] = self._table(field, place, field.key.name_kind, values.wrong)
            return
        self._know(place, field.key)
        given = self._source.given.get(place)
        if given is None and not field.is_required:
            self.effective.append(Effective(place, field.key, field.default, From.DEFAULT, ""))
            return
        try:
            values.right[field.name] = self._value(field.key, place, given)
        except Misread:
            values.wrong.append(place)
            values.stand_ins[field.name] = _stand_in(field)

    def _value(self, key: Key, place: KeyPath, given: Given | None) -> Any:
        """The given value of a key. Raises Misread if there is none that is right; the line has been noted."""
        if given is None:
            self._add(wording.missing(place, key, in_file=self._in_file))
            raise Misread
        value = self._check(key, place, given)
        self.effective.append(Effective(place, key, value, given.by, given.where))
        return value

    def _check(self, key: Key, place: KeyPath, given: Given) -> Any:
        """The checked value. Raises Misread if it is wrong; the line has been noted."""
        try:
            return key.kind.read(given.raw)
        except Misread as error:
            self._add(wording.wrong_value(place, key, given, str(error)))
            raise

    def _table(self, field: KeyedField, place: KeyPath, names: Kind, wrong: list[KeyPath]) -> dict[Any, Any]:
        """A table of values that all are of one kind: those that are right. `wrong`: gets the places of the others."""
        found: dict[Any, Any] = {}
        written: dict[Any, KeyPath] = {}
        for name in self._source.names_in(place):
            below = (*place, name)
            self._know(below, field.key)
            try:
                # `finish` refuses a table in place of a value
                given = self._source.given[below]
                number = self._number(names, below, field.key)
                self._check_once(written.setdefault(number, below), below)
                found[number] = self._value(field.key, below, given)
            except (Misread, KeyError):
                wrong.append(below)
        if not found:
            self.effective.append(Effective(place, field.key, None, From.DEFAULT, ""))
        return found

    def _check_once(self, first: KeyPath, place: KeyPath) -> None:
        """Raises Misread if another name of the table has the same number; the line has been noted."""
        if first != place:
            shown = wording.named(place)
            self._add(f"{shown} is {wording.named(first)} once more; right would be leaving one of the two out")
            raise Misread

    def _number(self, names: Kind, place: KeyPath, key: Key) -> Any:
        """The value of a name in a table. Raises Misread if it is wrong; the line has been noted."""
        try:
            return names.read(place[-1])
        except Misread as error:
            right = f"{dotted((*key.place, '1'))} = {toml(key.example)}"
            self._add(f"{wording.named(place)}: {cut(repr(place[-1]))} {error}; right would be {right}")
            raise

    def _know(self, place: KeyPath, key: Key) -> None:
        self._keys[place] = key
        self._names.setdefault(place[:-1], set()).add(place[-1])

    def _know_table(self, place: KeyPath) -> None:
        if place not in self._tables:
            self._tables.add(place)
            self._names.setdefault(place[:-1], set()).add(place[-1])

    def _unknown(self, place: KeyPath, given: Given | None) -> None:
        """Says it of the first name in the place that isn't one, however much stands below it."""
        size = next(size for size in range(1, len(place) + 1) if place[:size] not in self._tables)
        if place[:size] in self._keys:
            return
        names = tuple(sorted(self._names.get(place[: size - 1], ())))
        nearest = _nearest(place[size - 1], names)
        if nearest is None:
            self._add(wording.nothing_like(place[:size], given, names))
        else:
            right = (*place[: size - 1], nearest)
            self._add(wording.unknown(place[:size], given, right, self._keys.get(right)))


def _one_line(line: str) -> str:
    """With what nobody can see as Python escapes it: arguments may hold anything."""
    return "".join(one if one.isprintable() else repr(one)[1:-1] for one in line)


def _speaks_of_any(fault: Fault | str, places: Iterable[KeyPath], cluster: str) -> bool:
    return isinstance(fault, Fault) and any(fault.speaks_of(place, cluster) for place in places)


def _stand_in(field: KeyedField) -> Any:
    """A right value of a key."""
    return field.key.kind.read(field.key.example) if field.is_required else field.default


# many clusters have the same slip of the pen
@lru_cache(maxsize=1024)
def _nearest(name: str, names: tuple[str, ...]) -> str | None:
    """The one of these names that is most like it, if any is."""
    return next(iter(get_close_matches(name[:MAX_COMPARED], names, n=1, cutoff=0.5)), None)
