"""What entries of the log say in JSON: the facts of each kind, and what each fact may be.

A log may come from anywhere, and a checksum can be made good: what these tables don't allow is no entry that a tap
wrote. Facts that are not named here are passed over, so a tap may say more one day. An entry of format 1 says less:
what it lacks is not required.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, NotRequired, TypedDict

from msgspec import Meta
from msgspec.json import Decoder

from proxy.conversation.exchange import FrameKind, OpaqueReason
from proxy.wire.dialects import Dialect
from recorder.capture.frames import MOST_COUNTED
from recorder.capture.spool import MOST, MOST_ENTRY, MOST_OPEN, NO_CONNECTION, NUMBERS, Entry, EntryKind

Count = Annotated[int, Meta(ge=0, le=MOST)]
Total = Annotated[int, Meta(ge=0, le=MOST_COUNTED)]
# ns, or one of the two values of an exchange that say that there is no time
Time = Annotated[int, Meta(ge=-1, le=MOST)]
Int32 = Annotated[int, Meta(ge=-(1 << 31), le=(1 << 31) - 1)]
Size = Annotated[int, Meta(ge=0, le=(1 << 31) - 1)]
Offsets = tuple[Count, Count]


class SenselessEntryError(ValueError):
    """An entry whose checksum is right, and that no tap wrote."""


class Opened(TypedDict):
    """The two sockets. `limits`: the longest request and response that the proxy lets through."""

    listener: NotRequired[str | None]
    client: NotRequired[str | None]
    node: NotRequired[Int32 | None]
    upstream: NotRequired[str | None]
    tls: NotRequired[bool]
    cluster: NotRequired[str | None]
    dialect: NotRequired[Dialect]
    principal: NotRequired[str | None]
    limits: NotRequired[tuple[Size, Size]]


class Omitted(TypedDict):
    """`length`: bytes that have come and are not in the log. `frame`: the one that begins here is to be no row."""

    length: Annotated[int, Meta(ge=0, le=MOST_ENTRY)]
    frame: NotRequired[bool]


class Hole(TypedDict):
    """Where a connection's record breaks off."""

    reason: str


class Unsaid(TypedDict):
    """Connections that came and went without an entry of their own."""

    reason: str
    connections: Total
    frames: Total
    bytes: Total


class Login(TypedDict):
    """Who it is, or what the frames are from the entry's offset on."""

    principal: NotRequired[str]
    mechanism: str | None
    token: NotRequired[bool]
    ended: NotRequired[bool]


class SavedExchange(TypedDict):
    """As `proxy.conversation` saves it."""

    number: Count
    word: Annotated[int, Meta(ge=0, lt=1 << 34)]
    correlation_id: Int32 | None
    size: Size
    first_ns: Time
    last_ns: Time
    awaits: bool
    opaque: OpaqueReason | None
    made: Annotated[str, Meta(pattern="^([0-9a-f]{2}){8,}$")] | None
    response_size: Size
    response_first_ns: Time
    previous_last_ns: Time


class SavedSide(TypedDict):
    """One direction of a conversation, as it saves it."""

    offset: Count
    held: str
    held_at: Time
    left: Annotated[int, Meta(ge=0, lt=1 << 32)]
    begin: Count
    kind: FrameKind
    marked: bool
    others: Count


class SavedRequests(SavedSide):
    """The client's; `number`: of the next request."""

    number: Count


class SavedResponses(SavedSide):
    """The broker's; `begun`: how many there have been."""

    begun: Count
    previous_last_ns: Time


class SavedLogin(TypedDict):
    """A login, as a conversation saves it."""

    pending: bool
    mechanism: str | None
    tokens: tuple[bool, bool]
    counts: Offsets
    switches: tuple[list[SavedVerdict], list[SavedVerdict]]


SavedVerdict = tuple[Annotated[int, Meta(ge=0, le=1)], Count, bool, str | None, bool]


class SavedConversation(TypedDict):
    """All of it."""

    in_flight: list[SavedExchange]
    requests: SavedRequests
    request_open: SavedExchange | None
    responses: SavedResponses
    response_open: SavedExchange | None
    login: SavedLogin
    opaque_one_way: NotRequired[bool]


class Account(TypedDict):
    """What was lost in a gap, as the tap counted it: `early` ones by their numbers, all else by API.

    Old logs have no sizes: neither those of `early` requests, behind number and API, nor any other.
    """

    reason: str
    since_ns: Time
    early: list[Annotated[list[Count | str], Meta(min_length=2, max_length=3)]]
    early_responses: NotRequired[list[tuple[Count, str, Size]]]
    requests: dict[str, Total]
    responses: dict[str, Total]
    request_bytes: NotRequired[dict[str, Total]]
    response_bytes: NotRequired[dict[str, Total]]


class Resync(TypedDict):
    """Where a connection's record goes on."""

    state: SavedConversation
    account: Account
    unwanted: NotRequired[list[Count]]


class Checkpoint(TypedDict):
    """Where a connection's record may go on, and all that has been said of it.

    `arriving`: per direction, whether the state counts a frame whose end is still to come.
    """

    opened: Opened
    opened_ns: Time
    principal: str | None
    state: SavedConversation
    arriving: tuple[bool, bool]
    unwanted: list[Count]


class Closed(TypedDict):
    """`sequence` and `offsets`: frames and bytes in all; `account`: where the record had broken off."""

    cause: str
    sequence: NotRequired[Count]
    offsets: NotRequired[Offsets]
    account: NotRequired[Account]


class Totals(TypedDict):
    """Connections that were closed, and what they held."""

    connections: Total
    frames: Total
    bytes: Total


class Roll(TypedDict):
    """`open`: connections, each with the number of its next entry."""

    open: Annotated[list[tuple[Count, Annotated[int, Meta(ge=0, lt=NUMBERS)]]], Meta(max_length=MOST_OPEN)]
    closed: Totals


class Broken(TypedDict):
    """Where a connection's record broke off, as its track saves it."""

    reason: str
    since_ns: Time
    next_exchange: Count
    next_response: NotRequired[Count]
    next_whole: Count
    cut: str | None
    cut_size: NotRequired[Size]
    behind: Count | None
    offsets: Offsets | None


class SavedTrack(TypedDict):
    """A connection, as the compactor saves it."""

    connection: Count
    facts: Opened
    talk: SavedConversation | None
    broken: Broken | None
    sequence: Count
    principal: str | None
    clients: list[tuple[Count, str | None]]
    usual_client: str
    parts: tuple[Offsets | None, Offsets | None]
    kinds: tuple[FrameKind, FrameKind]
    first_ns: tuple[Time, Time]
    masks: tuple[list[Offsets], list[Offsets]]
    omissions: tuple[list[Offsets], list[Offsets]]
    deaf: tuple[bool, bool]
    left_out: NotRequired[tuple[list[Count], list[Count]]]
    unwanted: NotRequired[list[Count]]
    next_entry: Annotated[int, Meta(ge=0, lt=NUMBERS)]
    reached: Offsets | None
    late: tuple[Annotated[int, Meta(ge=0, le=1)], Annotated[int, Meta(ge=0, le=1)]]


class SavedAssembly(TypedDict):
    """All of them, and the session."""

    clock_ns: Annotated[int, Meta(ge=-MOST, le=MOST)]
    last_mono_ns: Count
    since_ns: Count
    begun: bool
    ended: bool
    is_numbered: bool
    closed: Totals | None
    tracks: Annotated[list[SavedTrack], Meta(max_length=MOST_OPEN)]


class SavedProgress(TypedDict):
    """How far the compactor had come."""

    segment: Count
    finished: bool
    cluster: str | None
    frames: Total
    bytes: Total
    log_bytes: Total | None


class SavedSession(TypedDict):
    """A state file's JSON."""

    progress: SavedProgress
    assembly: SavedAssembly


class Node(TypedDict):
    """A broker's node id, its address, and the listener that stands for it."""

    node_id: Int32
    upstream: str
    listener: str
    cluster: NotRequired[str | None]


_FACTS: Mapping[int, Decoder[Any]] = {
    EntryKind.OPENED: Decoder(Opened),
    EntryKind.OMITTED: Decoder(Omitted),
    EntryKind.HOLE: Decoder(Hole),
    EntryKind.LOGIN: Decoder(Login),
    EntryKind.RESYNC: Decoder(Resync),
    EntryKind.CLOSED: Decoder(Closed),
    EntryKind.NODE: Decoder(Node),
    EntryKind.END: Decoder(Roll),
    EntryKind.ROLL: Decoder(Roll),
    EntryKind.CHECKPOINT: Decoder(Checkpoint),
}
# what a list of an account may be, which a table can't tell
_EARLY = ([int, str], [int, str, int])
_NOTHING: dict[str, Any] = {"early": ()}
# a hole that is of no connection
_UNSAID = Decoder(Unsaid)


def facts(entry: Entry) -> Any:
    """What an entry says: a dict of its kind's table. Raises SenselessEntryError."""
    is_unsaid = entry.kind == EntryKind.HOLE and entry.connection == NO_CONNECTION
    told = checked(_UNSAID if is_unsaid else _FACTS[entry.kind], entry.data)
    for early in told.get("account", _NOTHING)["early"]:
        if [type(one) for one in early] not in _EARLY:
            raise SenselessEntryError("an early request is a number, an API, and perhaps a size")
    return told


def checked(table: Decoder[Any], text: bytes) -> Any:
    """JSON of a table. Raises SenselessEntryError."""
    try:
        return table.decode(text)
    except (ValueError, RecursionError) as error:
        raise SenselessEntryError(str(error)) from error
