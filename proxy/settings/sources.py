"""The sources of settings: a file, the environment, flags. Each becomes a `Source`: key path -> raw value and origin.

Used by `load`. This module knows how each source spells a key path: a file's tables, the variable
KAFKA_WIRETAP_CLUSTERS__MAIN__UPSTREAM, a flag's name. It doesn't know what a value means.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from proxy.schema.faults import KeyPath
from proxy.schema.flags import CLUSTERS, ENGINE_VARIABLE, ENTRY_FLAGS, FLAGS, MAIN, flag_of
from proxy.schema.kinds import cut
from proxy.settings.file import read_file
from proxy.terminal import printable

PREFIX = "KAFKA_WIRETAP_"
# the variable that names the settings file; it is no setting
CONFIG_VARIABLE = PREFIX + "CONFIG"
# where the variable of another command is exported, the proxy starts all the same
_NO_SETTINGS = frozenset({CONFIG_VARIABLE, ENGINE_VARIABLE})
# the number of names in the longest key path: clusters.main.tls.upstream.ca
DEEPEST = 5
# variables (without PREFIX) that Kubernetes sets in every pod if there is a service called kafka-wiretap
_KUBERNETES = re.compile(r"(.*_)?(SERVICE_(HOST|PORT.*)|PORT(_\d+_(TCP|UDP|SCTP).*)?)")


class SourceKind(Enum):
    """The kind of source of a value. Each kind wins over those above it."""

    DEFAULT = "default"
    FILE = "file"
    ENVIRONMENT = "environment"
    FLAG = "flag"


class GivenValue(NamedTuple):
    """A raw value and its origin. `where`: the file's path, the variable's name, or the flag."""

    raw: Any
    source_kind: SourceKind
    where: str


@dataclass(frozen=True)
class Source:
    """The raw values of one source, or of several.

    Args:
        given: key path -> value.
        tables: the key paths of all tables, also of empty ones.
        overridden: the values that lost to another source's value.
        error_lines: one for each misused flag.
    """

    given: dict[KeyPath, GivenValue] = field(default_factory=dict)
    tables: frozenset[KeyPath] = frozenset()
    overridden: tuple[tuple[KeyPath, GivenValue], ...] = ()
    error_lines: tuple[str, ...] = ()

    def over(self, weaker: Source) -> Source:
        """Both sources together. The values of this source win."""
        overridden = ((place, given) for place, given in weaker.given.items() if place in self.given)
        both = weaker.given | self.given, weaker.tables | self.tables
        return Source(*both, (*weaker.overridden, *overridden), (*weaker.error_lines, *self.error_lines))

    @property
    def clusters(self) -> list[str]:
        """The names of the clusters that have settings, in the order in which they were given."""
        return self.names_in((CLUSTERS,))

    def names_in(self, place: KeyPath) -> list[str]:
        """The names of the keys and tables in a table, in the order in which they were given."""
        return [*self._names.get(place, ())]

    @cached_property
    def _names(self) -> dict[KeyPath, dict[str, None]]:
        """The names in each table."""
        names: dict[KeyPath, dict[str, None]] = {}
        for place in (*self.given, *sorted(self.tables)):
            for size in range(len(place)):
                names.setdefault(place[:size], {})[place[size]] = None
        return names


def file_source(path: Path, *, again: bool = False) -> Source:
    """The source of a TOML file; see `read_file`."""
    leaves, shown = dict(_leaves((), read_file(path, again=again))), printable(path)
    given = {
        place: GivenValue(raw, SourceKind.FILE, shown) for place, raw in leaves.items() if not isinstance(raw, dict)
    }
    return Source(
        given, frozenset(place[:length] for place in leaves for length in range(1, len(place) + 1)) - {*given}
    )


def _leaves(place: KeyPath, table: Mapping[str, Any]) -> Iterator[tuple[KeyPath, Any]]:
    """All values below `place`; an empty table, or one that is deeper than any setting, counts as a value."""
    for name, value in table.items():
        if isinstance(value, dict) and value and len(place) < DEEPEST:
            yield from _leaves((*place, name), value)
        else:
            yield (*place, name), value


def environment_source(environment: Mapping[str, str], clusters: list[str]) -> Source:
    """The environment's source. `clusters`: the names of the file's clusters; variables have `_` for their hyphens."""
    # if two names have one spelling, the first wins
    spelled = {_spelled(name): name for name in reversed(clusters)}
    given = {}
    for variable, text in environment.items():
        name = variable.removeprefix(PREFIX)
        if name != variable and variable not in _NO_SETTINGS and not _KUBERNETES.fullmatch(name):
            given[_place(name, spelled)] = GivenValue(text, SourceKind.ENVIRONMENT, variable)
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


def flag_source(flags: Mapping[str, Any], weaker: Source) -> Source:
    """The flags' source. A cluster's flags set the keys of the only cluster in `weaker`, or of `main` if it has none.

    `Source.error_lines` has a line for each wrong --node, and for each flag of a cluster if there are several clusters.
    """
    used = {name: value for name, value in flags.items() if value not in (None, ())}
    named = weaker.clusters
    error_lines = list(_ambiguous_flags(used, named)) if len(named) > 1 else []
    cluster = named[0] if named else MAIN
    given: dict[KeyPath, GivenValue] = {}
    for name, value in used.items():
        place, flag = tuple(part or cluster for part in FLAGS[name]), flag_of(name)
        if None in FLAGS[name] and len(named) > 1:
            continue
        if name in ENTRY_FLAGS:
            entries, bad = _ENTRIES[name](value)
            given |= {(*place, *entry): GivenValue(text, SourceKind.FLAG, flag) for entry, text in entries.items()}
            error_lines += bad
        else:
            given[place] = GivenValue(value, SourceKind.FLAG, flag)
    return Source(given, frozenset() if named else frozenset({(CLUSTERS, cluster)}), error_lines=tuple(error_lines))


def _ambiguous_flags(used: Mapping[str, Any], clusters: list[str]) -> Iterator[str]:
    for name in used:
        if None in FLAGS[name]:
            yield (
                f"{flag_of(name)} speaks of one cluster, and there are {cut(', '.join(clusters))}; "
                f"right would be {variable_of((CLUSTERS, clusters[0], str(FLAGS[name][-1])))}"
            )


# the path of an entry below its table -> its value
Entries = dict[KeyPath, str]


def _nodes(texts: tuple[str, ...]) -> tuple[Entries, list[str]]:
    """The entries of texts "N=HOST:PORT"; and an error line for each wrong text."""
    nodes: Entries = {}
    lines = []
    for text in texts:
        number, equals, rest = text.partition("=")
        number = number.strip()
        if not equals or not (number.isascii() and number.isdigit()):
            lines.append(f"--node {cut(text)} names no node; right would be --node 1=127.0.0.1:9094")
            continue
        if (number,) in nodes:
            lines.append(f"--node {cut(text)} names node {cut(number)} twice; right would be one --node for each node")
        nodes[number,] = rest
    return nodes, lines


def _topic_records(texts: tuple[str, ...]) -> tuple[Entries, list[str]]:
    """The entries of texts "PATTERN=RULE"; and an error line for each wrong text."""
    rules: Entries = {}
    lines = []
    for text in texts:
        pattern, equals, rule = (part.strip() for part in text.partition("="))
        if not equals or not pattern:
            lines.append(
                f"--topic-records {cut(text)} names no topics; right would be --topic-records 'payments-*=drop'"
            )
        elif (pattern, "records") in rules:
            lines.append(
                f"--topic-records {cut(text)} names {cut(pattern)} twice; right would be one rule for each pattern"
            )
        rules[pattern, "records"] = rule
    return rules, lines


# the flags of ENTRY_FLAGS -> what reads their values
_ENTRIES: dict[str, Callable[[tuple[str, ...]], tuple[Entries, list[str]]]] = {
    "node": _nodes,
    "topic_records": _topic_records,
}
