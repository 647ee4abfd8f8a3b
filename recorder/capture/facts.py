"""The JSON of log entries: the facts of each kind of entry, and the values that each fact may have.

A log may come from anywhere, and anybody can make a checksum right: an entry that these tables don't allow was written
by no tap. Facts that are not named here are ignored, so later taps may write more. Facts that entries of format 1 lack
are not required.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, NotRequired, TypedDict

from msgspec import Meta
from msgspec.json import Decoder

from proxy.conversation.exchange import FrameKind, OpaqueReason
from proxy.wire.dialects import Dialect
from recorder.capture.frames import MAX_COUNTED
from recorder.capture.spool import MAX_ENTRY, MAX_NUMBER, MAX_OPEN, NO_CONNECTION, NUMBERS, Entry, EntryKind

Count = Annotated[int, Meta(ge=0, le=MAX_NUMBER)]
Total = Annotated[int, Meta(ge=0, le=MAX_COUNTED)]
# ns, or one of the two values by which an exchange says that it has no time
Time = Annotated[int, Meta(ge=-1, le=MAX_NUMBER)]
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
    """`length`: bytes that arrived and are not in the log. `frame`: the frame that begins here becomes no row."""

    length: Annotated[int, Meta(ge=0, le=MAX_ENTRY)]
    frame: NotRequired[bool]


class Hole(TypedDict):
    """Where a connection's record breaks off."""

    reason: str


class Unlogged(TypedDict):
    """Connections that were opened and closed without an entry of their own."""

    reason: str
    connections: Total
    frames: Total
    bytes: Total


class Login(TypedDict):
    """The principal that has logged in, or the kind of frames from the entry's offset on."""

    principal: NotRequired[str]
    mechanism: str | None
    token: NotRequired[bool]
    ended: NotRequired[bool]


class SavedExchange(TypedDict):
    """An exchange, as a conversation saves it."""

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
    """One direction of a conversation, as the conversation saves it."""

    offset: Count
    held: str
    held_at: Time
    left: Annotated[int, Meta(ge=0, lt=1 << 32)]
    begin: Count
    kind: FrameKind
    marked: bool
    others: Count


class SavedRequests(SavedSide):
    """The client's direction. `number`: of the next request."""

    number: Count


class SavedResponses(SavedSide):
    """The broker's direction. `begun`: how many responses have begun."""

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
    """A conversation, as it saves itself."""

    in_flight: list[SavedExchange]
    requests: SavedRequests
    request_open: SavedExchange | None
    responses: SavedResponses
    response_open: SavedExchange | None
    login: SavedLogin
    opaque_one_way: NotRequired[bool]


class Account(TypedDict):
    """The losses of a gap, as the tap counted them: `early` requests and responses by their numbers, all others by API.

    Old logs have no sizes: neither in `early`, behind number and API, nor by API.
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
    """Where a connection's record may go on, with all facts that are known of the connection.

    `arriving`: per direction, True if the state counts a frame whose end is still to come.
    """

    opened: Opened
    opened_ns: Time
    principal: str | None
    state: SavedConversation
    arriving: tuple[bool, bool]
    unwanted: list[Count]


class Closed(TypedDict):
    """`sequence` and `offsets`: frames and bytes in all; `account`: given if the record had broken off."""

    cause: str
    sequence: NotRequired[Count]
    offsets: NotRequired[Offsets]
    account: NotRequired[Account]


class Totals(TypedDict):
    """How many connections were closed, and the frames and bytes that they held."""

    connections: Total
    frames: Total
    bytes: Total


class Roll(TypedDict):
    """`open`: the open connections, each with the number of its next entry."""

    open: Annotated[list[tuple[Count, Annotated[int, Meta(ge=0, lt=NUMBERS)]]], Meta(max_length=MAX_OPEN)]
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
    """The assembly, as the compactor saves it: all connections, and the session."""

    clock_ns: Annotated[int, Meta(ge=-MAX_NUMBER, le=MAX_NUMBER)]
    last_mono_ns: Count
    since_ns: Count
    begun: bool
    ended: bool
    is_numbered: bool
    closed: Totals | None
    tracks: Annotated[list[SavedTrack], Meta(max_length=MAX_OPEN)]


class SavedProgress(TypedDict):
    """The compactor's progress."""

    segment: Count
    finished: bool
    cluster: str | None
    frames: Total
    bytes: Total
    log_bytes: Total | None


class SavedSession(TypedDict):
    """The JSON of a state file."""

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
# the types in the lists of `early`, which no table can express
_EARLY = ([int, str], [int, str, int])
_NOTHING: dict[str, Any] = {"early": ()}
# a hole without a connection
_UNLOGGED = Decoder(Unlogged)


def facts(entry: Entry) -> Any:
    """The facts of an entry: a dict of its kind's table. Raises SenselessEntryError."""
    is_unlogged = entry.kind == EntryKind.HOLE and entry.connection == NO_CONNECTION
    found = checked(_UNLOGGED if is_unlogged else _FACTS[entry.kind], entry.data)
    for early in found.get("account", _NOTHING)["early"]:
        if [type(one) for one in early] not in _EARLY:
            raise SenselessEntryError("an early request is a number, an API, and perhaps a size")
    return found


def checked(table: Decoder[Any], text: bytes) -> Any:
    """JSON decoded by a table. Raises SenselessEntryError."""
    try:
        return table.decode(text)
    except (ValueError, RecursionError) as error:
        raise SenselessEntryError(str(error)) from error
