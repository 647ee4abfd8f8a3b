"""What of the traffic is kept, by what its heads say: settings, and what they come to for one frame.

A list keeps what one of its patterns matches; a pattern that begins with `!` leaves out what it matches, and wins.
`*`, `?` and `[...]` stand for what they do in a shell. Payloads have no say: nothing is read behind a
frame's head.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from fnmatch import fnmatchcase, translate
from typing import Annotated, Any

from proxy.schema.errors import Misread
from proxy.schema.keys import Key
from proxy.schema.kinds import SIZE, Kind, Toml, cut, each, shown, text
from proxy.wire.apis import api_keys, api_name
from proxy.wire.kafka07 import RequestType

FULL, HEAD = "full", "head"
# what an API is called that the catalog has no name for, as in the metrics
OTHER = "other"
# client ids and principals are peers' to choose: so many answers are remembered, for names of at most this length
MOST_REMEMBERED, LONGEST_REMEMBERED = 4096, 256
_NOT = "!"


def _patterns(raw: Any, read: Callable[[Any], str] | None = None) -> tuple[str, ...]:
    parts = raw.split(",") if isinstance(raw, str) else raw
    if not isinstance(parts, list) or not parts:
        raise Misread("names nothing" if parts == [] else "is no list of patterns")
    return each(parts, read or _pattern)


def _pattern(part: Any) -> str:
    try:
        pattern = text(part)
    except Misread as error:
        raise Misread(f"has {shown(part)}, which {error}") from error
    if pattern == _NOT:
        raise Misread("has '!', which leaves out nothing")
    return pattern


def _apis(raw: Any) -> tuple[str, ...]:
    return _patterns(raw, _api)


def _api(part: Any) -> str:
    found = _pattern(part)
    _check_api(found.removeprefix(_NOT))
    return found


def _check_api(pattern: str) -> None:
    names = [*_names(), OTHER]
    lowered = {name.lower(): name for name in names}
    if any(fnmatchcase(name, pattern.lower()) for name in lowered):
        return
    near = get_close_matches(pattern.lower(), lowered, n=1, cutoff=0.5)
    said = f", but {lowered[near[0]]} is" if near else ": `kafka-wiretap wire list` has them all"
    raise Misread(f"has '{cut(pattern)}', which is no API{said}")


def _names() -> Iterable[str]:
    return [*filter(None, map(api_name, api_keys())), *(asked.api for asked in RequestType)]


def _bodies(raw: Any) -> str | int:
    if raw in (FULL, HEAD):
        return str(raw)
    try:
        size: int = SIZE.read(raw)
    except Misread as error:
        raise Misread('is neither "full" nor "head" nor a size') from error
    return size


def _written_bodies(value: Any) -> Toml:
    return value if value in (FULL, HEAD) else SIZE.written(value)


PATTERNS = Kind("a list of patterns", _patterns, list)
APIS = Kind("a list of patterns of APIs' names", _apis, list)
BODIES = Kind('"full", "head" or a size', _bodies, _written_bodies)


@dataclass(frozen=True, slots=True, kw_only=True)
class Selected:
    """The keys that say what is kept."""

    apis: Annotated[
        tuple[str, ...] | None,
        Key(
            APIS,
            "only.apis",
            "Record requests of these APIs and their responses: names or patterns, `!` in front of what is left out. "
            "`other` is what has no name.",
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
            "Record what these have sent and were answered, once the broker has accepted their login (a certificate's "
            "subject counts too); `*` matches who has no name, too.",
            ["orders", "CN=orders*"],
            unset="all",
        ),
    ] = None
    bodies: Annotated[
        str | int,
        Key(
            BODIES,
            "bodies",
            "What is kept of a frame: all of it, its head alone, or its head and so many bytes at its beginning. What "
            "is left out never reaches the disk.",
            "head",
        ),
    ] = FULL


class Patterns:
    """A list of them, as a question that is asked of every frame. None: everything is kept."""

    def __init__(self, patterns: Iterable[str] | None, *, lower: bool = False) -> None:
        given = [one.lower() if lower else one for one in patterns or ()]
        wanted = [one for one in given if not one.startswith(_NOT)]
        unwanted = [one.removeprefix(_NOT) for one in given if one.startswith(_NOT)]
        self._lower = lower
        self._wanted = re.compile("|".join(map(translate, wanted)) if wanted else "")
        self._unwanted = re.compile("|".join(map(translate, unwanted))) if unwanted else None
        self._answers: dict[str, bool] = {}
        self.take_all = not given

    def take(self, name: str) -> bool:
        """Whether what is called so is kept."""
        if self.take_all:
            return True
        answer = self._answers.get(name)
        if answer is None:
            answer = self._match(name.lower() if self._lower else name)
            if len(self._answers) < MOST_REMEMBERED and len(name) <= LONGEST_REMEMBERED:
                self._answers[name] = answer
        return answer

    def _match(self, name: str) -> bool:
        return bool(self._wanted.match(name)) and not (self._unwanted and self._unwanted.match(name))


class Selection:
    """What the settings come to. `most`: bytes of a frame, behind its length, that are kept at most; None: all."""

    def __init__(self, chosen: Selected) -> None:
        self._clusters = Patterns(chosen.clusters)
        self._listeners = Patterns(chosen.listeners)
        self.apis = Patterns(chosen.apis, lower=True)
        self.client_ids = Patterns(chosen.client_ids)
        self.principals = Patterns(chosen.principals)
        self.most = None if chosen.bodies == FULL else 0 if chosen.bodies == HEAD else int(chosen.bodies)

    @property
    def takes_whole_connections(self) -> bool:
        """Whether a connection that is recorded is recorded whole."""
        return self.most is None and self.apis.take_all and self.client_ids.take_all and self.principals.take_all

    def takes(self, cluster: str | None, listener: str) -> bool:
        """Whether a connection is recorded at all."""
        return self._clusters.take(cluster or "") and self._listeners.take(listener)
