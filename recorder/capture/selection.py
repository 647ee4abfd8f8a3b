"""The settings that select what is recorded, and their patterns, compiled to match connections and names.

Used by the tap and by `frame_filter`. `proxy.schema.patterns` says what a list of patterns selects.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from hashlib import blake2b
from typing import Annotated, Any

from proxy.schema.errors import InvalidValue
from proxy.schema.faults import KeyPath
from proxy.schema.keys import Key, keys_of
from proxy.schema.kinds import INTEGER, SIZE, Kind, Toml, cut, each, elements, shown, text
from proxy.schema.patterns import NOT, Patterns
from proxy.schema.toml import toml
from proxy.similar import nearest
from proxy.wire.apis import api_keys, api_name
from proxy.wire.kafka07 import RequestType
from recorder.capture.record_rules import RecordRules, RecordRuleSettings, topic_pattern

FULL, HEAD = "full", "head"
# the name of APIs that the catalog doesn't know, as in the metrics
OTHER = "other"
# a selection without a match is logged after so many seconds in which frames pass
UNMATCHED_SECONDS = 60.0


def _patterns(read: Callable[[Any], str], raw: Any) -> tuple[str, ...]:
    parts = elements(raw)
    if not isinstance(parts, list) or not parts:
        raise InvalidValue("names nothing" if parts == [] else "is no list of patterns")
    return each(parts, read)


def _pattern(part: Any) -> str:
    try:
        pattern = text(part)
    except InvalidValue as error:
        raise InvalidValue(f"has {shown(part)}, which {error}") from error
    if pattern == NOT:
        raise InvalidValue("has '!', which leaves out nothing")
    return pattern


def _api(part: Any) -> str:
    pattern = _pattern(part)
    name_pattern = pattern.removeprefix(NOT)
    asked = Patterns([name_pattern], ignore_case=True)
    known = [*filter(None, map(api_name, api_keys())), *(request_type.api for request_type in RequestType), OTHER]
    names = {name.lower(): name for name in known}
    if not any(map(asked.matches, names)):
        near = nearest(name_pattern.lower(), names)
        hint = f", but {names[near]} is" if near else ": `kafka-wiretap wire list` has them all"
        raise InvalidValue(f"has '{cut(name_pattern)}', which is no API{hint}")
    return pattern


def _topics(part: Any) -> str:
    pattern = _pattern(part)
    try:
        topic_pattern(pattern.removeprefix(NOT))
    except InvalidValue as error:
        raise InvalidValue(f"has {shown(part)}, which {error}") from error
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


def _share(raw: Any) -> float:
    try:
        share = float(raw)
    except (TypeError, ValueError):
        share = -1.0
    if isinstance(raw, bool) or not 0 < share <= 1:
        raise InvalidValue("is no share above 0, and at most 1")
    return share


def _api_name(raw: Any) -> str:
    name = _api(raw)
    known = {api.lower(): api for api in filter(None, map(api_name, api_keys()))}
    if name.lower() not in known:
        raise InvalidValue("is no single API")
    return known[name.lower()]


SHARE = Kind("a share above 0, 1 at most", _share, float, "SHARE")
PATTERNS = Kind("a list of patterns", partial(_patterns, _pattern), list, "PATTERN[,...]")
APIS = Kind("a list of patterns of APIs' names", partial(_patterns, _api), list, "API[,...]")
TOPICS = Kind("a list of patterns of topics' names", partial(_patterns, _topics), list, "TOPIC[,...]")
BODIES = Kind('"full", "head" or a size', _bodies, _written_bodies, "full|head|SIZE")


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectionSettings(RecordRuleSettings):
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
            "Record connections that arrived at these addresses, written as in the log. An IPv6 address may stand "
            "without its brackets, and an address without its port means all of its ports.",
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
    topics: Annotated[
        tuple[str, ...] | None,
        Key(
            TOPICS,
            "only.topics",
            "Record requests that name one of these topics, or whose session holds one, and their responses, without "
            "the records of other topics; also requests that name no topic.",
            ["payments-*", "!payments-test"],
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
    share: Annotated[
        float,
        Key(
            SHARE,
            "share",
            "Record this share of all clients: a hash of a client's address and client id chooses, so a client's "
            "connections stay together.",
            0.01,
        ),
    ] = 1.0
    shares: Annotated[
        Mapping[str, float],
        Key(
            SHARE,
            "shares",
            "Record this share of an API's exchanges, of the clients that are recorded.",
            0.1,
            unset="all",
            name_kind=Kind("the name of an API", _api_name, str, "API"),
            entry=("Fetch",),
        ),
    ] = field(default_factory=dict)
    seed: Annotated[
        int,
        Key(INTEGER, "seed", "Another number chooses other clients and exchanges for `share` and `shares`.", 7),
    ] = 0


def as_told(settings: SelectionSettings, section: str) -> dict[KeyPath, str]:
    """Key -> value, as a capture tells its settings, of those that were given. `section`: their table."""
    found = dict[KeyPath, str]()
    for place, keyed in keys_of(SelectionSettings).items():
        value = getattr(settings, keyed.name)
        if value == keyed.default:
            continue
        entries = {place: value}
        if keyed.key.name_kind is not None:
            entries = {keyed.key.entry_at(name): one for name, one in value.items()}
        found |= {(section, *at): toml(keyed.key.kind.written(one)) for at, one in entries.items()}
    return found


# the fields that are lists of patterns
LISTS = ("apis", "clusters", "listeners", "client_ids", "principals", "topics")


class LeftOutBy(StrEnum):
    """What leaves a frame out. A response is left out with its request."""

    CONNECTIONS = "connections"  # its cluster's name, or its listener
    APIS = "apis"
    PRINCIPALS = "principals"
    CLIENT_IDS = "client_ids"
    SHARE = "share"  # that of the clients, or of the API's exchanges
    TOPICS = "topics"
    FAULT = "fault"  # none of these, as far as anybody knows: a fault of the recorder came before the decision


class Sample:
    """The share of clients, and of APIs' exchanges, that is recorded. `takes_all`: True if that is everything."""

    def __init__(self, settings: SelectionSettings) -> None:
        self._share, self._shares, self._seed = settings.share, dict(settings.shares), settings.seed
        self.takes_all = self._share == 1 and all(share == 1 for share in self._shares.values())

    @property
    def takes_all_clients(self) -> bool:
        """True if no client id has to be known."""
        return self._share == 1

    def takes_client(self, address: str, client_id: str) -> bool:
        """True if the requests of this client are recorded. `address`: without its port."""
        return self._share == 1 or self._chance(address, client_id) < self._share

    def takes_exchange(self, api: str | None, client: str, number: int) -> bool:
        """True if an exchange is recorded, as far as its API goes. `client`: the address with its port."""
        share = self._shares.get(api or "", 1.0)
        return share == 1 or self._chance(client, str(number)) < share

    def _chance(self, *parts: str) -> float:
        """A number from 0 to 1 that follows from the seed and these texts."""
        found = blake2b("\0".join((str(self._seed), *parts)).encode("utf-8", "replace"), digest_size=8).digest()
        return int.from_bytes(found, "big") / (1 << 64)


class Selection:
    """The settings, compiled.

    `body_limit`: how many bytes of a frame, counted after its length field, are kept; its head is kept in any case
    (0: the head alone; None: all). `rules`: which topics are chosen, and what is kept of records. `sample`: the share
    that is recorded.
    """

    def __init__(self, settings: SelectionSettings) -> None:
        self._clusters = Patterns(settings.clusters)
        self._listeners = Patterns(settings.listeners, addresses=True)
        self.apis = Patterns(settings.apis, ignore_case=True)
        self.client_ids = Patterns(settings.client_ids)
        self.principals = Patterns(settings.principals)
        # each list that is given, as a user wrote it
        self.lists = {name: list(given) for name in LISTS if (given := getattr(settings, name))}
        self.rules = RecordRules(settings, Patterns(settings.topics))
        self.sample = Sample(settings)
        # the choices that come before that by topics
        self._choices = [getattr(settings, name) for name in (*LISTS, "share", "seed", "shares") if name != "topics"]
        self.body_limit = None if settings.bodies == FULL else 0 if settings.bodies == HEAD else int(settings.bodies)

    @property
    def selects_everything(self) -> bool:
        """True if nothing is left out of recorded connections."""
        return self.selects_by_topics_alone and self.rules.keeps_everything

    @property
    def selects_by_topics_alone(self) -> bool:
        """True if the choice of topics and rules for records are all that leaves anything out of connections."""
        return (
            self.body_limit is None
            and self.apis.matches_all
            and self.client_ids.matches_all
            and self.principals.matches_all
            and self.sample.takes_all
        )

    def follows_sessions_as(self, other: Selection) -> bool:
        """True if what `other` knows of clients' sessions still holds: it has read the same requests for it."""
        return not other.rules.only.matches_all and self._choices == other._choices

    def selects(self, cluster: str | None, listener: str) -> bool:
        """True if connections of this cluster to this listener are recorded at all."""
        return self.selects_cluster(cluster) and self._listeners.matches(listener)

    def selects_cluster(self, cluster: str | None) -> bool:
        """False if no connection of this cluster is recorded."""
        return self._clusters.matches(cluster or "")


class MatchWatch:
    """Notices a selection that matches nothing in a minute in which frames pass; once for each selection.

    `matched`: grows with the frames and connections that the selection matches; the tap counts them.
    """

    def __init__(self, left_out_frames: int = 0) -> None:
        self.matched = 0
        self._left_out_before = left_out_frames
        self._seen = 0
        self._since: float | None = None
        self._ended = False

    def frames_without_match(self, left_out_frames: int, now: float, *, matches_now: bool = False) -> int:
        """The number of frames left out in a minute without any match, once such a minute is over; 0 otherwise.

        Call it at least every few seconds. Args: the number of all frames left out so far; monotonic seconds;
        `matches_now`: a connection is open of which nothing is left out, so its frames are not counted.
        """
        if matches_now or self.matched != self._seen or left_out_frames == self._left_out_before:
            # the minute begins with the first frame that is left out
            self._seen, self._left_out_before, self._since = self.matched, left_out_frames, None
            return 0
        self._since = now if self._since is None else self._since
        if self._ended or now - self._since < UNMATCHED_SECONDS:
            return 0
        self._ended = True
        return left_out_frames - self._left_out_before
