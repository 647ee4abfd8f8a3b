from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

from proxy.schema.errors import BadSetting
from proxy.schema.keys import Key
from proxy.schema.kinds import INTEGER
from proxy.settings.reader import SettingsReader
from proxy.settings.sources import GivenValue, Source, SourceKind
from tests.tables import each_row


@dataclass(frozen=True, slots=True)
class Pond:
    depth: Annotated[int, Key(INTEGER, "depth", "How deep.", 3)]
    fish: Annotated[int | None, Key(INTEGER, "life.fish", "Fish.", 7, unset="none")] = None
    ducks: Annotated[Mapping[int, int], Key(INTEGER, "ducks", "Ducks.", 1, unset="none", name_kind=INTEGER)] = field(
        default_factory=dict
    )
    name: str = "pond"

    def __post_init__(self) -> None:
        if self.fish is not None and self.fish > self.depth:
            raise BadSetting("too many fish; right would be fewer", "and too large; right would be smaller")


def source(tables: tuple[str, ...] = (), **values: Any) -> Source:
    """`source(life__fish=3)` is a file with this value."""
    given = {("pond", *name.split("__")): GivenValue(raw, SourceKind.FILE, "f") for name, raw in values.items()}
    above = {place[:size] for place in given for size in range(1, len(place))}
    return Source(given, frozenset(above | {tuple(table.split(".")) for table in tables}))


def read(said: Source) -> tuple[Pond | None, list[str]]:
    reader = SettingsReader(said, in_file=True)
    pond = reader.section(Pond, ("pond",)).value
    reader.finish([])
    return pond, reader.error_lines


def test_given_keys_become_values():
    assert read(source(depth=5, life__fish="4", ducks__1=3)) == (Pond(5, 4, {1: 3}), [])


def test_keys_that_are_not_given_have_their_defaults():
    assert read(source(depth=5)) == (Pond(5), [])


def test_every_key_is_listed_with_its_value_and_source():
    said = source(depth=5, ducks__1=3).given | {("pond", "life", "fish"): GivenValue("2", SourceKind.FLAG, "--fish")}
    reader = SettingsReader(Source(said), in_file=True)
    reader.section(Pond, ("pond",))
    assert [(one.place, one.value, one.source_kind, one.where) for one in reader.effective] == [
        (("pond", "depth"), 5, SourceKind.FILE, "f"),
        (("pond", "life", "fish"), 2, SourceKind.FLAG, "--fish"),
        (("pond", "ducks", "1"), 3, SourceKind.FILE, "f"),
    ]
    reader = SettingsReader(source(depth=5), in_file=True)
    reader.section(Pond, ("pond",))
    assert [(one.value, one.source_kind) for one in reader.effective] == [
        (5, SourceKind.FILE),
        (None, SourceKind.DEFAULT),
        (None, SourceKind.DEFAULT),
    ]


@each_row(
    ("said", "lines"),
    [
        (source(), ["pond.depth is missing; right would be depth = 3"]),
        (source(depth="x"), ['pond.depth = "x" is no whole number; right would be depth = 3']),
        (source(depth=1, ducks__a=3), ["pond.ducks.a: 'a' is no whole number; right would be ducks.1 = 1"]),
        (source(depth=1, ducks__1="x"), ['pond.ducks.1 = "x" is no whole number; right would be ducks.1 = 1']),
        (source(depth=1, dept=3), ["pond.dept is no setting; right would be pond.depth = 3"]),
        (source(depth=1, lief__fish=3), ["pond.lief is no setting; right would be [pond.life]"]),
        (source(depth=1, lief__fish=3, lief__frogs=3), ["pond.lief is no setting; right would be [pond.life]"]),
        (source(depth=1, life__fist=3), ["pond.life.fist is no setting; right would be pond.life.fish = 7"]),
        (source(depth=1, xyz=3), ["pond.xyz is no setting; right would be one of depth, ducks, life"]),
        (source(("fish",), depth=1), ["fish is no setting; right would be pond.life.fish = 7"]),
        (source(("life",), depth=1), ["life is no setting; right would be [pond.life]"]),
        (source(depth=1, life=3), ["pond.life = 3 stands where a table belongs; right would be [pond.life]"]),
        (source(depth=1, ducks=[]), ["pond.ducks = [] stands where a table belongs; right would be [pond.ducks]"]),
        (
            source(life__fish__big=3),
            [
                "pond.depth is missing; right would be depth = 3",
                "[pond.life.fish] is a table where a value should stand; right would be pond.life.fish = 7",
            ],
        ),
        (source(("pnod",), depth=1), ["pnod is no setting; right would be [pond]"]),
        (
            source(depth=1, life__fish=2),
            ["too many fish; right would be fewer", "and too large; right would be smaller"],
        ),
    ],
)
def test_all_errors_of_a_section_are_reported(said, lines):
    assert read(said)[1] == lines


def test_a_section_with_an_error_is_none():
    assert read(source(depth="x"))[0] is None
    assert read(source(depth=1, life__fish=2))[0] is None


def test_lines_come_of_all_sections():
    reader = SettingsReader(source(depth="x", dept=1), in_file=True)
    reader.section(Pond, ("pond",))
    reader.section(Pond, ("lake",))
    reader.finish([("sea",)])
    assert [line.split(";")[0] for line in reader.error_lines] == [
        'pond.depth = "x" is no whole number',
        "lake.depth is missing",
        "pond.dept is no setting",
    ]
