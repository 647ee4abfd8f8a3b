"""Where settings come from: a file, the environment, flags. Each becomes the same: place -> what was written there.

Nothing is understood here but how each spells a place: a file has tables, the environment
KAFKA_WIRETAP_CLUSTERS__MAIN__UPSTREAM, a flag its own name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from proxy.schema.faults import KeyPath
from proxy.schema.flags import CLUSTERS, FLAGS, MAIN, flag_of
from proxy.schema.kinds import cut
from proxy.settings.file import read_file
from proxy.terminal import printable

PREFIX = "KAFKA_WIRETAP_"
# names the file of settings, which can't say so itself
CONFIG = PREFIX + "CONFIG"
# no setting stands deeper in tables: clusters.main.tls.upstream.ca
DEEPEST = 5
# variables that Kubernetes sets in every pod beside a service called kafka-wiretap
_KUBERNETES = re.compile(r"(.*_)?(SERVICE_(HOST|PORT.*)|PORT(_\d+_(TCP|UDP|SCTP).*)?)")


class From(Enum):
    """The kind of source that gave a value; a later one wins."""

    DEFAULT = "default"
    FILE = "file"
    ENVIRONMENT = "environment"
    FLAG = "flag"


class Given(NamedTuple):
    """A raw value and its origin: the file's path, the variable's name, the flag."""

    raw: Any
    by: From
    where: str


@dataclass(frozen=True)
class Source:
    """The raw values of one source, or several.

    Args:
        tables: those that are there, even with nothing in them.
        beaten: what was given, too, and something else wins over.
        wrong: a line for each thing that could not even be given.
    """

    given: dict[KeyPath, Given] = field(default_factory=dict)
    tables: frozenset[KeyPath] = frozenset()
    beaten: tuple[tuple[KeyPath, Given], ...] = ()
    wrong: tuple[str, ...] = ()

    def over(self, other: Source) -> Source:
        """Both sources; this one's values win."""
        beaten = ((place, given) for place, given in other.given.items() if place in self.given)
        both = other.given | self.given, other.tables | self.tables
        return Source(*both, (*other.beaten, *beaten), (*other.wrong, *self.wrong))

    @property
    def clusters(self) -> list[str]:
        """The names of the clusters of which something is said, in their order."""
        return self.below((CLUSTERS,))

    def below(self, place: KeyPath) -> list[str]:
        """The names that stand in a table, of keys and of further tables, in their order."""
        return [*self._names.get(place, ())]

    @cached_property
    def _names(self) -> dict[KeyPath, dict[str, None]]:
        """The names in each table, in their order."""
        names: dict[KeyPath, dict[str, None]] = {}
        for place in (*self.given, *sorted(self.tables)):
            for size in range(len(place)):
                names.setdefault(place[:size], {})[place[size]] = None
        return names


def file_source(path: Path, *, again: bool = False) -> Source:
    """The source of a TOML file; see `read_file`."""
    leaves, shown = dict(_leaves((), read_file(path, again=again))), printable(path)
    given = {place: Given(raw, From.FILE, shown) for place, raw in leaves.items() if not isinstance(raw, dict)}
    return Source(
        given, frozenset(place[:length] for place in leaves for length in range(1, len(place) + 1)) - {*given}
    )


def _leaves(place: KeyPath, table: Mapping[str, Any]) -> Iterator[tuple[KeyPath, Any]]:
    """Everything that is no table, and tables that are empty or deeper than any setting stands."""
    for name, value in table.items():
        if isinstance(value, dict) and value and len(place) < DEEPEST:
            yield from _leaves((*place, name), value)
        else:
            yield (*place, name), value


def environment_source(environment: Mapping[str, str], clusters: list[str]) -> Source:
    """The environment's source. `clusters`: their names in the file, which variables can't spell with a hyphen."""
    # if two names are spelled alike, the first wins
    spelled = {_spelled(name): name for name in reversed(clusters)}
    given = {}
    for variable, text in environment.items():
        name = variable.removeprefix(PREFIX)
        if name != variable and variable != CONFIG and not _KUBERNETES.fullmatch(name):
            given[_place(name, spelled)] = Given(text, From.ENVIRONMENT, variable)
    return Source(given)


def _place(variable: str, clusters: Mapping[str, str]) -> KeyPath:
    first, *rest = variable.lower().split("__", DEEPEST)
    if first == CLUSTERS and rest:
        rest[0] = clusters.get(rest[0], rest[0])
    return (first, *rest)


def _spelled(part: str) -> str:
    return part.replace("-", "_").lower()


def variable_of(place: KeyPath) -> str:
    """The variable that sets a key."""
    return PREFIX + "__".join(_spelled(part).upper() for part in place)


def flag_source(flags: Mapping[str, Any], below: Source) -> Source:
    """The flags' source; a cluster's flags set the only cluster of `below`, or `main`.

    Wrong are a --node that names none, and flags of one cluster where there are several.
    """
    said = {name: value for name, value in flags.items() if value not in (None, ())}
    named = below.clusters
    wrong = list(_speak_of_none(said, named)) if len(named) > 1 else []
    cluster = named[0] if named else MAIN
    given: dict[KeyPath, Given] = {}
    for name, value in said.items():
        place, flag = tuple(part or cluster for part in FLAGS[name]), flag_of(name)
        if None in FLAGS[name] and len(named) > 1:
            continue
        if name == "node":
            nodes, bad = _nodes(value)
            given |= {(*place, number): Given(text, From.FLAG, flag) for number, text in nodes.items()}
            wrong += bad
        else:
            given[place] = Given(value, From.FLAG, flag)
    return Source(given, frozenset() if named else frozenset({(CLUSTERS, cluster)}), wrong=tuple(wrong))


def _speak_of_none(said: Mapping[str, Any], clusters: list[str]) -> Iterator[str]:
    for name in said:
        if None in FLAGS[name]:
            yield (
                f"{flag_of(name)} speaks of one cluster, and there are {cut(', '.join(clusters))}; "
                f"right would be {variable_of((CLUSTERS, clusters[0], str(FLAGS[name][-1])))}"
            )


def _nodes(texts: tuple[str, ...]) -> tuple[dict[str, str], list[str]]:
    """Each "N=HOST:PORT" by its number, and what is wrong with the others."""
    nodes: dict[str, str] = {}
    wrong = []
    for text in texts:
        number, equals, rest = text.partition("=")
        number = number.strip()
        if not equals or not (number.isascii() and number.isdigit()):
            wrong.append(f"--node {cut(text)} names no node; right would be --node 1=127.0.0.1:9094")
            continue
        if number in nodes:
            wrong.append(f"--node {cut(text)} names node {cut(number)} twice; right would be one --node for each node")
        nodes[number] = rest
    return nodes, wrong
