"""The settings that select what is recorded, and their patterns, compiled to match connections and names.

Used by the tap and by `frame_filter`. A list of patterns selects the names that one of its patterns matches. A pattern
that begins with `!` excludes the names that it matches, whatever the other patterns say. A list of `!` patterns
alone selects all other names. `*`, `?` and `[...]` work as in a shell.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase, translate
from functools import partial
from typing import Annotated, Any

from proxy.schema.errors import InvalidValue
from proxy.schema.keys import Key
from proxy.schema.kinds import SIZE, Kind, Toml, cut, each, shown, text
from proxy.similar import nearest
from proxy.wire.apis import api_keys, api_name
from proxy.wire.kafka07 import RequestType

FULL, HEAD = "full", "head"
# the name of APIs that the catalog doesn't know, as in the metrics
OTHER = "other"
# the number of names whose results are cached, and the characters of the longest of them: peers choose the names
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
    pattern = _pattern(part)
    name_pattern = pattern.removeprefix(_NOT)
    known = [*filter(None, map(api_name, api_keys())), *(request_type.api for request_type in RequestType), OTHER]
    names = {name.lower(): name for name in known}
    if not any(fnmatchcase(name, name_pattern.lower()) for name in names):
        near = nearest(name_pattern.lower(), names)
        hint = f", but {names[near]} is" if near else ": `kafka-wiretap wire list` has them all"
        raise InvalidValue(f"has '{cut(name_pattern)}', which is no API{hint}")
    return pattern


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
class SelectionSettings:
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
            "What is kept of a frame: all of it, its head alone, or its first bytes up to this size (its head in any "
            "case). What is left out never reaches the disk.",
            "head",
        ),
    ] = FULL


class Patterns:
    """A list of patterns, compiled; None matches every name."""

    def __init__(self, patterns: Iterable[str] | None, *, ignore_case: bool = False) -> None:
        given = [pattern.lower() if ignore_case else pattern for pattern in patterns or ()]
        wanted = [pattern for pattern in given if not pattern.startswith(_NOT)]
        unwanted = [pattern.removeprefix(_NOT) for pattern in given if pattern.startswith(_NOT)]
        self._ignore_case = ignore_case
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
            answer = self._match(name.lower() if self._ignore_case else name)
            if len(self._cache) < MAX_REMEMBERED and len(name) <= LONGEST_REMEMBERED:
                self._cache[name] = answer
        return answer

    def _match(self, name: str) -> bool:
        return bool(self._wanted.match(name)) and not (self._unwanted and self._unwanted.match(name))


class Selection:
    """The settings, compiled.

    `body_limit`: how many bytes of a frame, counted after its length field, are kept; its head is kept in any case
    (0: the head alone; None: all).
    """

    def __init__(self, settings: SelectionSettings) -> None:
        self._clusters = Patterns(settings.clusters)
        self._listeners = Patterns(settings.listeners)
        self.apis = Patterns(settings.apis, ignore_case=True)
        self.client_ids = Patterns(settings.client_ids)
        self.principals = Patterns(settings.principals)
        self.body_limit = None if settings.bodies == FULL else 0 if settings.bodies == HEAD else int(settings.bodies)

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
        """True if connections of this cluster to this listener are recorded at all."""
        return self._clusters.matches(cluster or "") and self._listeners.matches(listener)
