"""The schemas of the JSON in log entries and state files, and the decoder that checks JSON against them.

Used by `assembly` and `progress`. A log may come from anywhere, and anybody can compute a right checksum, so each field
is checked. Fields that no schema names are ignored, so that later versions may write more.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, NotRequired, TypedDict

from msgspec import Meta
from msgspec.json import Decoder

from proxy.conversation.exchange import FrameKind, OpaqueReason
from proxy.wire.dialects import Dialect
from recorder.capture.frames import MAX_COUNTED
from recorder.capture.spool import (
    LONGEST_NAME,
    MAX_ENTRY,
    MAX_KNOWN,
    MAX_NUMBER,
    MAX_OPEN,
    MAX_SETTINGS,
    NO_CONNECTION,
    NUMBERS,
    Entry,
    EntryKind,
)

Count = Annotated[int, Meta(ge=0, le=MAX_NUMBER)]
Total = Annotated[int, Meta(ge=0, le=MAX_COUNTED)]
# ns, or a value that stands for an unknown time: NOT_ARRIVED (0) or TIME_UNKNOWN (-1)
Time = Annotated[int, Meta(ge=-1, le=MAX_NUMBER)]
Int32 = Annotated[int, Meta(ge=-(1 << 31), le=(1 << 31) - 1)]
Size = Annotated[int, Meta(ge=0, le=(1 << 31) - 1)]
CountPair = tuple[Count, Count]
SignedNumber = Annotated[int, Meta(ge=-MAX_NUMBER, le=MAX_NUMBER)]
Counted = tuple[str, Int32, Count, Count, Count]
# facts that a decision may have: more than any has
MAX_FACTS = 20


class InvalidEntryError(ValueError):
    """A log entry that no tap can have written, although its checksum is right; or a state that can't be used."""


class OpenedJson(TypedDict):
    """A connection's opening: its two sockets. `limits`: the longest request and response that may pass."""

    listener: str
    client: str
    node: Int32 | None
    upstream: str | None
    tls: bool
    cluster: str
    dialect: Dialect
    principal: str | None
    limits: tuple[Size, Size]


class OmittedJson(TypedDict):
    """`length`: how many bytes a setting left out.

    `frame`: True if the frame that begins here gets no row. `counted`: of the frame that begins here, what was only
    counted of its batches: topic, partition, batches, records, bytes.
    """

    length: Annotated[int, Meta(ge=0, le=MAX_ENTRY)]
    frame: NotRequired[bool]
    counted: NotRequired[list[Counted]]


class GapJson(TypedDict):
    """The beginning of a gap in a connection's record. `reason`: the `cause` of the gap's event."""

    reason: str


class UnloggedJson(TypedDict):
    """Connections that were opened and closed without an entry of their own."""

    reason: str
    connections: Total
    frames: Total
    bytes: Total


class LoginJson(TypedDict):
    """Either a `principal` that the broker has accepted, or a verdict on the frames from the entry's offset on."""

    principal: NotRequired[str]
    mechanism: str | None
    token: NotRequired[bool]
    ended: NotRequired[bool]


class SavedExchange(TypedDict):
    """An exchange, as `Conversation.state` saves it. `own_answer`: in hex."""

    number: Count
    api_and_version: Annotated[int, Meta(ge=0, lt=1 << 34)]
    correlation_id: Int32 | None
    size: Size
    first_ns: Time
    last_ns: Time
    awaits: bool
    opaque: OpaqueReason | None
    own_answer: Annotated[str, Meta(pattern="^([0-9a-f]{2}){8,}$")] | None
    response_size: Size
    response_first_ns: Time
    previous_last_ns: Time


class SavedSide(TypedDict):
    """One direction of a conversation, as `Side.state` saves it. `held`: in base64."""

    offset: Count
    held: str
    held_at: Time
    bytes_left: Annotated[int, Meta(ge=0, lt=1 << 32)]
    open_begin: Count
    kind: FrameKind
    marked: bool
    without_exchange: Count


class SavedRequests(SavedSide):
    """The client's direction. `next_number`: that of the next request."""

    next_number: Count


class SavedResponses(SavedSide):
    """The broker's direction. `begun`: the number of responses so far; see `ResponseSide`."""

    begun: Count
    previous_last_ns: Time


class SavedLogin(TypedDict):
    """A login, as `Login.state` saves it. `switches`: per direction, the verdicts to come."""

    pending: bool
    mechanism: str | None
    tokens: tuple[bool, bool]
    counts: CountPair
    switches: tuple[list[SavedVerdict], list[SavedVerdict]]


# a `Verdict`: direction, offset, token, mechanism, ended
SavedVerdict = tuple[Annotated[int, Meta(ge=0, le=1)], Count, bool, str | None, bool]


class SavedConversation(TypedDict):
    """A conversation, as `Conversation.state` saves it."""

    in_flight: list[SavedExchange]
    requests: SavedRequests
    request_open: SavedExchange | None
    responses: SavedResponses
    response_open: SavedExchange | None
    login: SavedLogin
    broker_ignores_opaque: bool


class AccountJson(TypedDict):
    """The possible losses of a gap, as the tap counted them (`gap.Gap`): the log may have some of the early ones.

    (number, API, size): in `early` of each request that began before the gap, in `early_responses` of each response
    that was whole before the gap, but that the recorder kept back. Frames of the gap itself are counted by API.
    `counted`: False if more frames are lost, whose number nobody knows.
    """

    reason: str
    since_ns: Time
    early: list[tuple[Count, str, Size]]
    early_responses: list[tuple[Count, str, Size]]
    requests: dict[str, Total]
    responses: dict[str, Total]
    request_bytes: dict[str, Total]
    response_bytes: dict[str, Total]
    counted: NotRequired[bool]


class ResyncJson(TypedDict):
    """The end of a gap: the state with which the connection's record resumes.

    `left_out_responses`: the numbers of the exchanges in flight whose responses become no rows.
    """

    state: SavedConversation
    account: AccountJson
    left_out_responses: list[Count]


class CheckpointJson(TypedDict):
    """A state with which a connection's record may resume after losses, and everything known of the connection.

    `arriving`: per direction, True if the state counts a frame whose end is still to come. `left_out_responses`: as
    in ResyncJson.
    """

    opened: OpenedJson
    opened_ns: Time
    principal: str | None
    state: SavedConversation
    arriving: tuple[bool, bool]
    left_out_responses: list[Count]


class ClosedJson(TypedDict):
    """A connection's end. `sequence`, `offsets`: all its frames and bytes; `account`: of a gap that has not ended.

    `decision`: what the proxy saw when it decided to end the connection; absent if a peer ended it.
    """

    cause: str
    sequence: Count
    offsets: CountPair
    decision: NotRequired[Annotated[dict[str, str | SignedNumber], Meta(max_length=MAX_FACTS)]]
    account: NotRequired[AccountJson]


class TotalsJson(TypedDict):
    """The number of closed connections, and the frames and bytes that passed on them."""

    connections: Total
    frames: Total
    bytes: Total


# an id, a name or an address
Known = Annotated[str, Meta(max_length=LONGEST_NAME)]
KnownList = Annotated[list[Known], Meta(max_length=MAX_KNOWN)]


class ClusterJson(TypedDict):
    """What a cluster can be known by again: the keys are those of the event (`frames.EVENT_CLUSTER`)."""

    cluster: Known | None
    ids: KnownList
    upstreams: KnownList
    listeners: KnownList


class SettingsJson(TypedDict):
    """What is in force: the keys are those of the event (`frames.EVENT_SETTINGS`). `settings`: absent if not told."""

    settings: NotRequired[Annotated[dict[Known, Known], Meta(max_length=MAX_SETTINGS)]]
    versions: Annotated[dict[Known, Known], Meta(max_length=MAX_FACTS)]


class ImportedJson(TypedDict):
    """A packet dump that became a session: its name, size and digest, and the version of the program that read it."""

    file: Known
    bytes: Count
    sha256: Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]
    version: Known


class InventoryJson(TypedDict):
    """`open`: the open connections, each with the number of its next entry. `in_force`: absent if not told."""

    clusters: list[ClusterJson]
    in_force: NotRequired[SettingsJson]
    open: Annotated[list[tuple[Count, Annotated[int, Meta(ge=0, lt=NUMBERS)]]], Meta(max_length=MAX_OPEN)]
    closed: TotalsJson


class BrokenJson(TypedDict):
    """The beginning of a gap (`ConnectionState.break_off`). Further keys: see `gap.lost_by_api`.

    `next_whole`: the number of the first request that was not whole. `offsets`: per direction, the end of the last
    whole frame; `behind`: the sum of `offsets`; both are None if the compactor's state was lost.
    """

    reason: str
    since_ns: Time
    next_exchange: Count
    next_response: NotRequired[Count]
    next_whole: Count
    cut: str | None
    cut_size: NotRequired[Size]
    behind: Count | None
    offsets: CountPair | None


class SavedConnectionState(TypedDict):
    """A connection, as `ConnectionState.state` saves it.

    `opening`: None if it is lost. `usual_client_id_bytes`: in base64. `parts`: per direction, where the state file's
    blob has the bytes of an incomplete frame: (offset, length).
    """

    connection: Count
    opening: OpenedJson | None
    conversation: SavedConversation | None
    broken: BrokenJson | None
    sequence: Count
    principal: str | None
    unusual_client_ids: list[tuple[Count, str | None]]
    usual_client_id_bytes: str
    parts: tuple[CountPair | None, CountPair | None]
    kinds: tuple[FrameKind, FrameKind]
    first_ns: tuple[Time, Time]
    masks: tuple[list[CountPair], list[CountPair]]
    omissions: tuple[list[CountPair], list[CountPair]]
    dropped: tuple[list[CountPair], list[CountPair]]
    notes: tuple[list[tuple[Count, str]], list[tuple[Count, str]]]
    unreadable: tuple[bool, bool]
    left_out: tuple[list[Count], list[Count]]
    left_out_responses: list[Count]
    next_entry: Annotated[int, Meta(ge=0, lt=NUMBERS)]
    reached: CountPair | None
    lost_arriving: tuple[Annotated[int, Meta(ge=0, le=1)], Annotated[int, Meta(ge=0, le=1)]]


class SavedAssembly(TypedDict):
    """All connections of a session, as `Assembly.state` saves them.

    `topics`: of a session whose rules keep some topics' records and hash others': cluster, id in hex, name.
    `clock_ns`: wall clock minus monotonic clock; `closed`: `ReaderTotals`.
    """

    clock_ns: Annotated[int, Meta(ge=-MAX_NUMBER, le=MAX_NUMBER)]
    last_mono_ns: Count
    damaged_since_ns: Count
    begun: bool
    ended: bool
    closed: TotalsJson | None
    clusters: list[ClusterJson]
    in_force: NotRequired[SettingsJson]
    topics: list[tuple[Known | None, Annotated[str, Meta(pattern="^([0-9a-f]{2}){16}$")], Known]]
    connections: Annotated[list[SavedConnectionState], Meta(max_length=MAX_OPEN)]


class SavedProgress(TypedDict):
    """`progress.Progress`, as it is saved."""

    segment: Count
    finished: bool
    cluster: str | None
    frames: Total
    bytes: Total
    log_bytes: Total | None


class SavedSession(TypedDict):
    """The JSON of a state file. `salt`: in that of an encrypted log, in hex; the JSON is then the state in clear."""

    progress: SavedProgress
    assembly: SavedAssembly
    salt: NotRequired[Annotated[str, Meta(pattern="^([0-9a-f]{2}){32}$")]]


class NodeJson(TypedDict):
    """A broker's node id, its address, and the listener that stands for it."""

    node_id: Int32
    upstream: str
    listener: str
    cluster: str


_DECODERS: Mapping[int, Decoder[Any]] = {
    EntryKind.OPENED: Decoder(OpenedJson),
    EntryKind.OMITTED: Decoder(OmittedJson),
    EntryKind.GAP: Decoder(GapJson),
    EntryKind.LOGIN: Decoder(LoginJson),
    EntryKind.RESYNC: Decoder(ResyncJson),
    EntryKind.CLOSED: Decoder(ClosedJson),
    EntryKind.NODE: Decoder(NodeJson),
    EntryKind.END: Decoder(InventoryJson),
    EntryKind.INVENTORY: Decoder(InventoryJson),
    EntryKind.CHECKPOINT: Decoder(CheckpointJson),
    EntryKind.CLUSTER: Decoder(ClusterJson),
    EntryKind.SETTINGS: Decoder(SettingsJson),
    EntryKind.IMPORTED: Decoder(ImportedJson),
}
# a GAP entry without a connection tells of connections that have no entry of their own
_UNLOGGED_DECODER = Decoder(UnloggedJson)


def decoded(entry: Entry) -> Any:
    """The JSON of an entry, checked against the schema of its kind. Raises InvalidEntryError."""
    is_unlogged = entry.kind == EntryKind.GAP and entry.connection == NO_CONNECTION
    return decode_checked(_UNLOGGED_DECODER if is_unlogged else _DECODERS[entry.kind], entry.data)


def decode_checked(decoder: Decoder[Any], text: bytes) -> Any:
    """The JSON value of a text, checked against the decoder's schema. Raises InvalidEntryError."""
    try:
        return decoder.decode(text)
    except (ValueError, RecursionError) as error:
        raise InvalidEntryError(str(error)) from error
