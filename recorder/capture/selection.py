"""Which traffic is recorded, by the heads of its frames: the settings, and their meaning for one frame.

A list selects the names that one of its patterns matches. A pattern that begins with `!` excludes names, and wins.
`*`, `?` and `[...]` work as in a shell. Payloads don't matter: nothing behind a frame's head is read.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from fnmatch import fnmatchcase, translate
from functools import partial
from typing import Annotated, Any

from proxy.schema.errors import InvalidValue
from proxy.schema.keys import Key
from proxy.schema.kinds import SIZE, Kind, Toml, cut, each, shown, text
from proxy.wire.apis import api_keys, api_name
from proxy.wire.kafka07 import RequestType

FULL, HEAD = "full", "head"
# the name of APIs that the catalog doesn't know, as in the metrics
OTHER = "other"
# peers choose client ids and principals: so many results are cached, for names of at most this length
MAX_REMEMBERED, LONGEST_REMEMBERED = 4096, 256
_NOT = "!"


def _patterns(read: Callable[[Any], str], raw: Any) -> tuple[str, ...]:
    parts = raw.split(",") if isinstance(raw, str) else raw
    if not isinstance(parts, list) or not parts:
        raise InvalidValue("names nothing" if parts == [] else "is no list of patterns")
    return each(parts, read)


def _pattern(part: Any) -> str:
    try:
        pattern = text(part)
    except InvalidValue as error:
        raise InvalidValue(f"has {shown(part)}, which {error}") from error
    if pattern == _NOT:
        raise InvalidValue("has '!', which leaves out nothing")
    return pattern


def _api(part: Any) -> str:
    found = _pattern(part)
    pattern = found.removeprefix(_NOT)
    known = [*filter(None, map(api_name, api_keys())), *(asked.api for asked in RequestType), OTHER]
    names = {name.lower(): name for name in known}
    if not any(fnmatchcase(name, pattern.lower()) for name in names):
        near = get_close_matches(pattern.lower(), names, n=1, cutoff=0.5)
        hint = f", but {names[near[0]]} is" if near else ": `kafka-wiretap wire list` has them all"
        raise InvalidValue(f"has '{cut(pattern)}', which is no API{hint}")
    return found


def _bodies(raw: Any) -> str | int:
    if raw in (FULL, HEAD):
        return str(raw)
    try:
        size: int = SIZE.read(raw)
    except InvalidValue as error:
        raise InvalidValue('is neither "full" nor "head" nor a size') from error
    return size


def _written_bodies(value: Any) -> Toml:
    return value if value in (FULL, HEAD) else SIZE.written(value)


PATTERNS = Kind("a list of patterns", partial(_patterns, _pattern), list)
APIS = Kind("a list of patterns of APIs' names", partial(_patterns, _api), list)
BODIES = Kind('"full", "head" or a size', _bodies, _written_bodies)


@dataclass(frozen=True, slots=True, kw_only=True)
class Selected:
    """The settings that select what is recorded."""

    apis: Annotated[
        tuple[str, ...] | None,
        Key(
            APIS,
            "only.apis",
            "Record requests of these APIs and their responses: names or patterns. `!` in front leaves out. `other` "
            "stands for unknown APIs.",
            ["Produce", "*Offset*", "!ListOffsets"],
            unset="all",
        ),
    ] = None
    clusters: Annotated[
        tuple[str, ...] | None,
        Key(PATTERNS, "only.clusters", "Record these clusters' connections.", ["main"], unset="all"),
    ] = None
    listeners: Annotated[
        tuple[str, ...] | None,
        Key(
            PATTERNS,
            "only.listeners",
            "Record connections that arrived at these addresses.",
            ["127.0.0.1:19092", "*:91*"],
            unset="all",
        ),
    ] = None
    client_ids: Annotated[
        tuple[str, ...] | None,
        Key(
            PATTERNS,
            "only.client_ids",
            "Record requests with these client ids and their responses.",
            ["orders-*", "!orders-test*"],
            unset="all",
        ),
    ] = None
    principals: Annotated[
        tuple[str, ...] | None,
        Key(
            PATTERNS,
            "only.principals",
            "Record requests of these principals and their responses, once the broker has accepted their login (a "
            "certificate's subject counts, too). `*` also matches connections without a principal.",
            ["orders", "CN=orders*"],
            unset="all",
        ),
    ] = None
    bodies: Annotated[
        str | int,
        Key(
            BODIES,
            "bodies",
            "What is kept of a frame: all of it, its head alone, or its head and this many bytes. What is left out "
            "never reaches the disk.",
            "head",
        ),
    ] = FULL


class Patterns:
    """A list of patterns, which every frame's names are matched against. None matches everything."""

    def __init__(self, patterns: Iterable[str] | None, *, lower: bool = False) -> None:
        given = [one.lower() if lower else one for one in patterns or ()]
        wanted = [one for one in given if not one.startswith(_NOT)]
        unwanted = [one.removeprefix(_NOT) for one in given if one.startswith(_NOT)]
        self._lower = lower
        self._wanted = re.compile("|".join(map(translate, wanted)) if wanted else "")
        self._unwanted = re.compile("|".join(map(translate, unwanted))) if unwanted else None
        self._cache: dict[str, bool] = {}
        self.matches_all = not given

    def matches(self, name: str) -> bool:
        """True if the name is selected."""
        if self.matches_all:
            return True
        answer = self._cache.get(name)
        if answer is None:
            answer = self._match(name.lower() if self._lower else name)
            if len(self._cache) < MAX_REMEMBERED and len(name) <= LONGEST_REMEMBERED:
                self._cache[name] = answer
        return answer

    def _match(self, name: str) -> bool:
        return bool(self._wanted.match(name)) and not (self._unwanted and self._unwanted.match(name))


class Selection:
    """The compiled settings. `body_limit`: bytes of a frame, behind its length, to keep at most; None: all."""

    def __init__(self, chosen: Selected) -> None:
        self._clusters = Patterns(chosen.clusters)
        self._listeners = Patterns(chosen.listeners)
        self.apis = Patterns(chosen.apis, lower=True)
        self.client_ids = Patterns(chosen.client_ids)
        self.principals = Patterns(chosen.principals)
        self.body_limit = None if chosen.bodies == FULL else 0 if chosen.bodies == HEAD else int(chosen.bodies)

    @property
    def selects_everything(self) -> bool:
        """True if nothing is left out of recorded connections."""
        return (
            self.body_limit is None
            and self.apis.matches_all
            and self.client_ids.matches_all
            and self.principals.matches_all
        )

    def selects(self, cluster: str | None, listener: str) -> bool:
        """True if a connection is recorded at all."""
        return self._clusters.matches(cluster or "") and self._listeners.matches(listener)
