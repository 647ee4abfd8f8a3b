"""Turns raw values into the settings' dataclasses, and each fault into an error line.

Used by `load`. Each dataclass is a section. Its keys are looked up below a key path, and their values read by their
kinds; then the dataclass' constructor checks the values together. A name that no section has looked up is no setting.

In place of a wrong or missing value the constructor gets a right one, a *stand-in*, so that it can check the other
values. A fault that names a key with a stand-in is left out, because it may be about the stand-in.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import Any, NamedTuple

from proxy.schema.errors import BadSetting, InvalidValue
from proxy.schema.faults import Fault, KeyPath, line_of
from proxy.schema.flags import MAIN
from proxy.schema.keys import Key, KeyedField, keys_of
from proxy.schema.kinds import Kind, cut
from proxy.schema.toml import dotted, toml
from proxy.settings import wording
from proxy.settings.sources import GivenValue, Source, SourceKind
from proxy.similar import nearest

# error lines are cut to so many characters: names and values may have any length
LONGEST_LINE = 1000


class EffectiveValue(NamedTuple):
    """A key and its value in effect; None: not set.

    `where`: the value's origin, such as "wiretap.toml" or "--listen".
    """

    place: KeyPath
    key: Key
    value: Any
    source_kind: SourceKind
    where: str


class Section(NamedTuple):
    """The result of reading a section.

    Args:
        value: the dataclass; None if a value or the whole is wrong.
        draft: the dataclass, perhaps with stand-ins; None if its constructor finds a fault.
        valid: field -> value, for the valid values that were given.
        wrong_places: the key paths of wrong and missing values.
    """

    value: Any | None
    draft: Any | None
    valid: Mapping[str, Any]
    wrong_places: Sequence[KeyPath]


class _Values(NamedTuple):
    """A section's valid values and stand-ins so far (field -> value); the key paths of wrong and missing values."""

    valid: dict[str, Any]
    stand_ins: dict[str, Any]
    wrong_places: list[KeyPath]


class SettingsReader:
    """Reads the sections of a source, one after the other.

    `effective`: the keys so far that have a valid value, or were not given and have their default.
    """

    def __init__(self, source: Source, *, in_file: bool) -> None:
        self.effective: list[EffectiveValue] = []
        self._source = source
        self._in_file = in_file
        # each once, in order
        self._error_lines: dict[str, None] = {}
        self._keys: dict[KeyPath, Key] = {}
        # the paths of known tables, and the known names in each
        self._tables: set[KeyPath] = {()}
        self._names: dict[KeyPath, set[str]] = {}
        self._add_lines(*source.error_lines)

    @property
    def error_lines(self) -> list[str]:
        """The error lines so far."""
        return [*self._error_lines]

    def section(self, settings: type, place: KeyPath = (), *parts: Section, **fields: Any) -> Section:
        """Reads one section.

        Args:
            place: the section's key path.
            parts: the sections within it, whose faults are its own too.
            fields: the values of fields that are no keys, such as drafts of `parts`.
        """
        values = self._read_keys(settings, place)
        wrong_places = [*values.wrong_places, *(place for part in parts for place in part.wrong_places)]
        draft = self.construct(settings, {**values.stand_ins, **values.valid, **fields}, wrong_places)
        return Section(None if wrong_places else draft, draft, values.valid, wrong_places)

    def values(self, settings: type) -> Mapping[str, Any]:
        """Field -> value, for the valid values of the keys at the top level."""
        return self._read_keys(settings, ()).valid

    def construct(self, settings: type, values: Mapping[str, Any], stood_in: Sequence[KeyPath] = ()) -> Any | None:
        """The dataclass of these values; None if its constructor finds a fault. `stood_in`: keys with stand-ins."""
        cluster = str(values.get("name", MAIN))
        try:
            return settings(**values)
        except BadSetting as error:
            self.report(
                *(fault for fault in error.faults if not _speaks_of_any(fault, stood_in, cluster)), cluster=cluster
            )
        except ValueError as error:
            self.report(str(error))
        return None

    def report(self, *faults: Fault | str, cluster: str = MAIN) -> None:
        """Adds an error line for each fault. `cluster`: the one whose settings are at fault."""
        self._add_lines(*(line_of(fault, cluster, in_file=self._in_file) for fault in faults))

    def finish(self, tables: Iterable[KeyPath]) -> None:
        """Reports the faults that no section reports. Call it after the last section.

        These are unknown names, wrong values that were overridden, values in place of tables, and tables in place of
        values. `tables`: the key paths of tables that are known even if no section was read below them.
        """
        for place in tables:
            self._add_table(place)
        for place, given in self._source.given.items():
            if place in self._tables:
                shown, raw = wording.named(place), wording.as_toml(given.raw)
                self._add_lines(f"{shown} = {raw} stands where a table belongs; right would be [{shown}]")
            elif place not in self._keys:
                self._report_unknown(place, given)
        for place, given in self._source.overridden:
            if place in self._keys:
                with suppress(InvalidValue):
                    self._check(self._keys[place], place, given)
        for place in sorted(self._source.tables):
            if place in self._keys:
                right = f"{dotted(place)} = {toml(self._keys[place].example)}"
                self._add_lines(f"[{dotted(place)}] is a table where a value should stand; right would be {right}")
            elif place not in self._tables:
                self._report_unknown(place, None)

    def _add_lines(self, *lines: str) -> None:
        self._error_lines |= dict.fromkeys(cut(_one_line(line), LONGEST_LINE) for line in lines)

    def _read_keys(self, settings: type, place: KeyPath) -> _Values:
        values = _Values({}, {}, [])
        for field in keys_of(settings).values():
            self._read_key(field, (*place, *field.key.place), values)
        return values

    def _read_key(self, field: KeyedField, place: KeyPath, values: _Values) -> None:
        """Looks one key up, and adds its value, or a stand-in, to `values`."""
        for size in range(1, len(place)):
            self._add_table(place[:size])
        if field.key.name_kind is not None:
            self._add_table(place)
            values.valid[field.name] = self._read_table(field, place, field.key.name_kind, values.wrong_places)
            return
        self._add_key(place, field.key)
        given = self._source.given.get(place)
        if given is None and not field.is_required:
            self.effective.append(EffectiveValue(place, field.key, field.default, SourceKind.DEFAULT, ""))
            return
        try:
            values.valid[field.name] = self._read_value(field.key, place, given)
        except InvalidValue:
            values.wrong_places.append(place)
            values.stand_ins[field.name] = _stand_in(field)

    def _read_value(self, key: Key, place: KeyPath, given: GivenValue | None) -> Any:
        """The value of a key. Raises InvalidValue, with its error line added, if the value is wrong or missing."""
        if given is None:
            self._add_lines(wording.missing(place, key, in_file=self._in_file))
            raise InvalidValue
        value = self._check(key, place, given)
        self.effective.append(EffectiveValue(place, key, value, given.source_kind, given.where))
        return value

    def _check(self, key: Key, place: KeyPath, given: GivenValue) -> Any:
        """The value, read by the key's kind. Raises InvalidValue, with its error line added, if it is wrong."""
        try:
            return key.kind.read(given.raw)
        except InvalidValue as error:
            self._add_lines(wording.wrong_value(place, key, given, str(error)))
            raise

    def _read_table(
        self, field: KeyedField, place: KeyPath, name_kind: Kind, wrong_places: list[KeyPath]
    ) -> dict[Any, Any]:
        """The right entries of a table such as `nodes`: name -> value.

        `name_kind`: the kind of the names; `wrong_places`: a list to which the paths of wrong entries are added.
        """
        entries: dict[Any, Any] = {}
        first_places: dict[Any, KeyPath] = {}
        for name in self._source.names_in(place):
            below = (*place, name, *field.key.entry[1:])
            if len(below) > len(place) + 1:
                self._add_table(below[:-1])
            self._add_key(below, field.key)
            try:
                given = self._source.given[below]
                name_value = self._read_name(name_kind, (*place, name), field.key)
                self._check_distinct(first_places.setdefault(name_value, below), below)
                entries[name_value] = self._read_value(field.key, below, given)
            except (InvalidValue, KeyError):
                # KeyError: a table in place of a value, which `finish` refuses
                wrong_places.append(below)
        if not entries:
            self.effective.append(EffectiveValue(place, field.key, None, SourceKind.DEFAULT, ""))
        return entries

    def _check_distinct(self, first: KeyPath, place: KeyPath) -> None:
        """Raises InvalidValue, with its error line added, if two names have the same value ("1" and "01")."""
        if first != place:
            shown = wording.named(place)
            self._add_lines(f"{shown} is {wording.named(first)} once more; right would be leaving one of the two out")
            raise InvalidValue

    def _read_name(self, name_kind: Kind, place: KeyPath, key: Key) -> Any:
        """The value of a name in a table, such as a node id. Raises InvalidValue, with its error line added."""
        try:
            return name_kind.read(place[-1])
        except InvalidValue as error:
            right = f"{dotted(key.entry_at(key.entry[0]))} = {toml(key.example)}"
            self._add_lines(f"{wording.named(place)}: {cut(repr(place[-1]))} {error}; right would be {right}")
            raise

    def _add_key(self, place: KeyPath, key: Key) -> None:
        self._keys[place] = key
        self._names.setdefault(place[:-1], set()).add(place[-1])

    def _add_table(self, place: KeyPath) -> None:
        if place not in self._tables:
            self._tables.add(place)
            self._names.setdefault(place[:-1], set()).add(place[-1])

    def _report_unknown(self, place: KeyPath, given: GivenValue | None) -> None:
        """Reports the outermost unknown name of a key path: an unknown table gets one line, whatever it contains."""
        size = next(size for size in range(1, len(place) + 1) if place[:size] not in self._tables)
        if place[:size] in self._keys:
            return
        names = tuple(sorted(self._names.get(place[: size - 1], ())))
        right = self._elsewhere(place[size - 1])
        if right is None and (nearest := _nearest(place[size - 1], names)):
            right = (*place[: size - 1], nearest)
        if right is None:
            self._add_lines(wording.unknown_without_suggestion(place[:size], given, names))
        else:
            self._add_lines(wording.unknown(place[:size], given, right, self._keys.get(right)))

    def _elsewhere(self, name: str) -> KeyPath | None:
        """The path of a key or table of this very name, which stands in another section; None: there is none."""
        return min((known for known in (*self._tables, *self._keys) if known[-1:] == (name,)), key=len, default=None)


def _one_line(line: str) -> str:
    """The line, with unprintable characters escaped as in Python: arguments may hold anything."""
    return "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in line)


def _speaks_of_any(fault: Fault | str, places: Iterable[KeyPath], cluster: str) -> bool:
    return isinstance(fault, Fault) and any(fault.mentions(place, cluster) for place in places)


def _stand_in(field: KeyedField) -> Any:
    """A right value of a key: its default, or else its example."""
    return field.key.kind.read(field.key.example) if field.is_required else field.default


# many clusters may have the same typing error
@lru_cache(maxsize=1024)
def _nearest(name: str, names: tuple[str, ...]) -> str | None:
    """The one of `names` that is most like `name`; None if none is similar."""
    return nearest(name, names)
