"""The options of a replay, valid once they exist."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cache

from proxy.schema.kinds import SECONDS, SIZE
from proxy.schema.patterns import Patterns
from proxy.wire.apis import api_name


class Deletes(StrEnum):
    """Things that may be deleted on the target."""

    NOTHING = "none"
    OWN = "own"  # what this replay made, or --prefix names
    ALL = "all"


# the times that are shortened at `max` unless somebody asked for them
WAITS = frozenset({"wait", "drain"})
# Brokers elect leaders and learn of topics within seconds, however short a recording is.
SHORTEST_WAIT = 10 * 10**9


@dataclass(frozen=True, slots=True)
class Options:
    """The options of `kafka-wiretap replay` that its rules need. Times in nanoseconds, sizes in bytes.

    Attributes:
        speed: a multiple of the recorded speed; None: as fast as the order allows (`max`).
        onto_recorded, same_address, target_is_another: what is known of the target: each allows what the player's
            guard would refuse.
        fence, create_topics: each allows what `prepare` would refuse.
        only: patterns of API names; empty: all.
        prefix: before names of topics, groups, transactional ids and instances; empty: no change.
        nodes: recorded node id -> target node id, before the rule of ranks.
        wait: how long a request waits for anything; `drain`: how long the ends of logs are polled at the end.
        as_asked: those of these two that somebody asked for, which `within` leaves as they are.
        memory: of waiting requests.
        max_late: lateness at which the replay ends; None: never.
        has_login: False for a recorded principal (None: connections without one) for whom nobody logs in.
        stop_after: number of mismatches above which the replay ends; None: never.
    """

    speed: float | None = 1.0
    only: tuple[str, ...] = ()
    read_only: bool = False
    produce_only: bool = False
    admin: bool = False
    deletes: Deletes = Deletes.NOTHING
    telemetry: bool = False
    prefix: str = ""
    shift_timestamps: bool = False
    create_topics: bool = False
    onto_recorded: bool = False
    same_address: bool = False
    target_is_another: bool = False
    fence: bool = False
    nodes: Mapping[int, int] = field(default_factory=dict)
    wait: int = 60 * 10**9
    drain: int = 10 * 10**9
    as_asked: frozenset[str] = frozenset()
    memory: int = 256 << 20
    max_late: int | None = None
    stop_after: int | None = None
    has_login: Callable[[str | None], bool] = lambda principal: True

    def chooses(self, api_key: int) -> bool:
        """True unless `--only` leaves the API out."""
        return not self.only or is_api(self.only, api_key)

    def within(self, recorded_ns: int) -> Options:
        """At `max`, default times that are no longer than the recording, or than SHORTEST_WAIT.

        A request that the recording had settled at its end, at the latest, has no reason to take longer.
        """
        if self.speed is not None:
            return self
        longest = max(recorded_ns, SHORTEST_WAIT)
        return replace(self, **{name: min(getattr(self, name), longest) for name in WAITS - self.as_asked})

    def words(self) -> tuple[str, ...]:
        """The speed, and all options with other than default values, as they would be typed."""
        given = [f"--speed {self.speed:g}" if self.speed is not None else "--speed max"]
        given += [f"--only {','.join(self.only)}"] if self.only else []
        given += [f"--prefix {self.prefix}"] if self.prefix else []
        given += [f"--deletes {self.deletes.value}"] if self.deletes is not Deletes.NOTHING else []
        given += ["--timestamps shift"] if self.shift_timestamps else []
        given += [f"--node {recorded}={target}" for recorded, target in sorted(self.nodes.items())]
        given += [f"--{_typed(name)}" for name in _SWITCHES if getattr(self, name)]
        default = Options()
        changed = [name for name in _MEASURES if name in self.as_asked or getattr(self, name) != getattr(default, name)]
        return (*given, *(f"--{_typed(name)} {_MEASURES[name](getattr(self, name))}" for name in changed))


# the switches that allow a target that may be a recorded cluster
OF_TARGET = ("onto_recorded", "same_address", "target_is_another")
_SWITCHES = ("read_only", "produce_only", "admin", "telemetry", "create_topics", *OF_TARGET, "fence")


def _time(nanoseconds: int) -> object:
    return SECONDS.written(nanoseconds / 10**9)


_MEASURES: dict[str, Callable[[int], object]] = {
    "wait": _time,
    "drain": _time,
    "memory": SIZE.written,
    "max_late": _time,
    "stop_after": int,
}


def _typed(name: str) -> str:
    return name.replace("_", "-")


def is_api(patterns: tuple[str, ...], api_key: int) -> bool:
    """True for an API that a list of patterns selects (`proxy.schema.patterns`), in any case."""
    return _compiled(patterns).matches(api_name(api_key) or "")


@cache
def _compiled(patterns: tuple[str, ...]) -> Patterns:
    return Patterns(patterns, ignore_case=True)
