"""Where settings come from: a file, the environment, flags. Each becomes the same: place -> what was written there.

Nothing is understood here but how each spells a place: a file has tables, the environment
KAFKA_WIRETAP_CLUSTERS__MAIN__UPSTREAM, a flag its own name.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any, NamedTuple

from proxy.config import MAIN, BadSetting
from proxy.settings.keys import Place

PREFIX = "KAFKA_WIRETAP_"
# names the file of settings, which can't say so itself
CONFIG = PREFIX + "CONFIG"
CLUSTERS, CAPTURE = "clusters", "capture"
# what Kubernetes puts into every pod beside a service called kafka-wiretap
_KUBERNETES = re.compile(r"(.*_)?(SERVICE_(HOST|PORT.*)|PORT(_\d+_(TCP|UDP|SCTP).*)?)")

# a flag's name as click knows it -> its place; None stands for the cluster that flags speak of
FLAGS: dict[str, tuple[str | None, ...]] = {
    "upstream": (CLUSTERS, None, "upstream"),
    "listen": (CLUSTERS, None, "listen"),
    "advertise": (CLUSTERS, None, "advertise"),
    "node_ports": (CLUSTERS, None, "node_ports"),
    "node_count": (CLUSTERS, None, "node_count"),
    "node": (CLUSTERS, None, "nodes"),
    "state": (CLUSTERS, None, "state"),
    "record": (CAPTURE, "folder"),
    "record_queue": (CAPTURE, "queue"),
    "record_spool": (CAPTURE, "spool"),
    "record_when_full": (CAPTURE, "when_full"),
    "metrics": ("metrics",),
    "drain": ("drain",),
    "workers": ("workers",),
    "log_level": ("log", "level"),
}


class From(Enum):
    """What a value was given by; a later one of these wins."""

    DEFAULT = "default"
    FILE = "file"
    ENVIRONMENT = "environment"
    FLAG = "flag"


class Given(NamedTuple):
    """What was written, and where: the file's path, the variable's name, the flag."""

    raw: Any
    by: From
    where: str


@dataclass(frozen=True, slots=True)
class Source:
    """What one source says, or several.

    Args:
        tables: those that are there, even with nothing in them.
        beaten: what was given, too, and something else wins over.
    """

    given: dict[Place, Given] = field(default_factory=dict)
    tables: frozenset[Place] = frozenset()
    beaten: tuple[tuple[Place, Given], ...] = ()

    def over(self, other: Source) -> Source:
        """Both; where they say different things, this one."""
        beaten = ((place, given) for place, given in other.given.items() if place in self.given)
        return Source(other.given | self.given, other.tables | self.tables, (*other.beaten, *beaten))

    def clusters(self) -> list[str]:
        """The names of the clusters of which something is said, in their order."""
        places = [*self.given, *sorted(self.tables)]
        return [*dict.fromkeys(place[1] for place in places if place[0] == CLUSTERS and len(place) > 1)]


def file_source(path: Path) -> Source:
    """What a TOML file says.

    Raises:
        BadSetting: it can't be read, or is no TOML.
    """
    example = "right would be a file as in docs/settings.md"
    try:
        with path.open("rb") as file:
            tables = tomllib.load(file)
    except OSError as error:
        raise BadSetting(f"--config {path} can't be read ({error.strerror}); {example}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BadSetting(f"--config {path} is no TOML ({error}); {example}") from error
    leaves = dict(_leaves((), tables))
    given = {place: Given(raw, From.FILE, str(path)) for place, raw in leaves.items() if not isinstance(raw, dict)}
    return Source(
        given, frozenset(place[:length] for place in leaves for length in range(1, len(place) + 1)) - {*given}
    )


def _leaves(place: Place, table: Mapping[str, Any]) -> Iterator[tuple[Place, Any]]:
    """Everything that is no table, and empty tables."""
    for name, value in table.items():
        if isinstance(value, dict) and value:
            yield from _leaves((*place, name), value)
        else:
            yield (*place, name), value


def environment_source(environment: Mapping[str, str], clusters: list[str]) -> Source:
    """What the environment says. `clusters`: their names in the file, which variables can't spell with a hyphen."""
    given = {}
    for variable, text in environment.items():
        name = variable.removeprefix(PREFIX)
        if name != variable and variable != CONFIG and not _KUBERNETES.fullmatch(name):
            given[_place(name, clusters)] = Given(text, From.ENVIRONMENT, variable)
    return Source(given)


def _place(variable: str, clusters: list[str]) -> Place:
    first, *rest = variable.lower().split("__")
    if first == CLUSTERS and rest:
        rest[0] = next((name for name in clusters if _spelled(name) == rest[0]), rest[0])
    return (first, *rest)


def _spelled(part: str) -> str:
    return part.replace("-", "_").lower()


def variable_of(place: Place) -> str:
    """The variable that sets a key."""
    return PREFIX + "__".join(_spelled(part).upper() for part in place)


def flag_source(flags: Mapping[str, Any], below: Source) -> Source:
    """What flags say; those of a cluster speak of the only one that `below` has, or of `main`.

    Raises:
        BadSetting: there are several clusters, or a --node names none.
    """
    said = {name: value for name, value in flags.items() if value not in (None, ())}
    named = below.clusters()
    cluster = named[0] if named else MAIN
    if len(named) > 1:
        _check_speaks_of_none(said, named)
    given: dict[Place, Given] = {}
    wrong: list[str] = []
    for name, value in said.items():
        place = tuple(part or cluster for part in FLAGS[name])
        flag = flag_of(name)
        if name == "node":
            nodes, bad = _nodes(value)
            given |= {(*place, number): Given(text, From.FLAG, flag) for number, text in nodes.items()}
            wrong += bad
        else:
            given[place] = Given(value, From.FLAG, flag)
    if wrong:
        raise BadSetting(*wrong)
    return Source(given, frozenset() if named else frozenset({(CLUSTERS, cluster)}))


def flag_of(name: str) -> str:
    """A flag as it is typed."""
    return "--" + name.replace("_", "-")


def _check_speaks_of_none(said: Mapping[str, Any], clusters: list[str]) -> None:
    wrong = [
        f"{flag_of(name)} speaks of one cluster, and there are {', '.join(clusters)}; "
        f"right would be {variable_of((CLUSTERS, clusters[0], str(FLAGS[name][-1])))}"
        for name in said
        if None in FLAGS[name]
    ]
    if wrong:
        raise BadSetting(*wrong)


def _nodes(texts: tuple[str, ...]) -> tuple[dict[str, str], list[str]]:
    """Each "N=HOST:PORT" by its number, and what is wrong with the others."""
    nodes: dict[str, str] = {}
    wrong = []
    for text in texts:
        number, equals, rest = text.partition("=")
        number = number.strip()
        if not equals or not (number.isascii() and number.isdigit()):
            wrong.append(f"--node {text} names no node; right would be --node 1=127.0.0.1:9094")
        elif number in nodes:
            wrong.append(f"--node {text} names node {number} twice; right would be one --node for each node")
        nodes[number] = rest
    return nodes, wrong
