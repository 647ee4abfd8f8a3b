"""The values that the rooms of a replay hand to each other. No state, no rules.

    exchange     a recorded exchange on its way to the target
    withheld     a request, or one partition of it, that is not sent, for a reason of the table `Reason`
    made         a request of the replay's own: shown in reports, never compared
    held         a request that waits for something, `--wait` at most
    not sent     what a room says of a request that can't leave as it is: withheld, held, to be asked for first, or
                 answered before

Times are nanoseconds. Recorded times are of the play's common clock (`stream`), all others of the player's monotonic
clock.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from proxy.wire.errors import WireError
from proxy.wire.keys import PRODUCE
from recorder.capture.frames import Origin as Origin
from recorder.replay import messages
from recorder.replay.messages import SMALL, RememberedRequest, answer_values, decoded_request
from recorder.replay.messages import Values as Values

# nanoseconds in a second and in a millisecond
NANOSECONDS, MILLISECOND = 10**9, 10**6
# The client id of requests that a replay makes itself: a capture of a replay (`--record`, or a proxy's) tells them
# apart by it.
CLIENT_ID = "kafka-wiretap-replay"
# Shown for what a replay could not end, where the target gave no reason.
NO_ANSWER = "no answer"


class Reason(StrEnum):
    """Why a request, or a partition of it, is withheld. The value stands in reports."""

    NEVER = "never sent by a replay"
    OF_A_REPLAY = "made by the replay that was recorded"
    MADE_ANEW = "each connection of the replay sends its own"
    NEEDS_ADMIN = "changes the cluster (--admin)"
    NEEDS_DELETES = "deletes (--deletes)"
    NEEDS_TELEMETRY = "telemetry (--telemetry)"
    BEYOND_PREFIX = "reaches beyond the names with --prefix"
    READ_ONLY = "not among what --read-only sends"
    PRODUCE_ONLY = "not among what --produce-only sends"
    NOT_CHOSEN = "left out by --only"
    MASKED = "has masked bytes"
    CUT = "its body was not recorded"
    NOT_KEPT = "records not kept"
    OPAQUE = "can't be read"
    OTHER_SESSION = "stands in the file of another session"
    OLD_DIALECT = "Kafka 0.7"
    NO_TOPIC = "the target has no such topic"
    NO_VERSION = "the target has no version of the API"
    LOST_FIELD = "a field of it has no place in the target's version"
    NO_CROSSING = "no rule leads to the target's version"
    NO_PRODUCER = "its producer id was given by no answer"
    NO_TRANSACTION = "its transaction failed on the target"
    NO_MEMBER = "its member is not in the target's group"
    NO_GENERATION = "its member has no generation on the target"
    NO_LEADER = "the recorded leader sent no assignment"
    NO_EPOCH = "the target tells no leader epoch of its partition"
    NO_OFFSET = "its offset has no counterpart on the target"
    NO_SESSION = "its session is not open on the target"
    NOT_ACQUIRED = "its records were not acquired on the target"
    NO_LOGIN = "the settings file has no login for its principal"
    NO_NODE = "no node of the target takes it"
    GAVE_UP = "waited longer than --wait"
    FROM_BEFORE = "is of something from before the recording"
    REFUSED = "refused in the recording"
    REPEATED = "repeats records that the target has taken"
    ENDED = "the replay ended before it was due"


# Reasons that follow from the options, or that hold in every replay: --partial does not count them.
BY_CHOICE = frozenset(
    {
        *(Reason.NEVER, Reason.OF_A_REPLAY, Reason.MADE_ANEW, Reason.NEEDS_ADMIN, Reason.NEEDS_DELETES),
        *(Reason.NEEDS_TELEMETRY, Reason.BEYOND_PREFIX, Reason.READ_ONLY, Reason.PRODUCE_ONLY, Reason.NOT_CHOSEN),
    }
)

# Reasons that leave nothing unplayed: the recorded cluster did not take the request either, an earlier request brought
# the records, or the target can't have what the request is about.
_PLAYED = frozenset({Reason.REFUSED, Reason.REPEATED, Reason.FROM_BEFORE})


def unplayable_percent(withheld: Mapping[str, int], all_of_them: int) -> float:
    """The share of requests that can't be played, among those that the options choose.

    Args:
        withheld: requests by reason.
        all_of_them: all requests, with those withheld.
    """
    chosen = all_of_them - sum(count for reason, count in withheld.items() if reason in BY_CHOICE)
    unplayable = sum(count for reason, count in withheld.items() if reason not in BY_CHOICE | _PLAYED)
    return 100 * unplayable / chosen if chosen else 0.0


class FramePlace(NamedTuple):
    """The position of a frame in the capture: its file (`reader.CaptureFile`), row group, and row in that group."""

    file: Hashable
    group: int
    row: int


class Peer(NamedTuple):
    """The host and client id of a consumer. Two connections of one peer are one consumer."""

    host: str
    client_id: str | None

    def __str__(self) -> str:
        return f"{self.host} {self.client_id or ''}".strip()


class ShareGroup(NamedTuple):
    """A share group: its members consume as one."""

    name: str

    def __str__(self) -> str:
        return f"share group {self.name}"


class Dropped(NamedTuple):
    """A partition that was left out of a request that is sent; or a topic, group or transactional id, with WHOLE."""

    topic: str | bytes
    partition: int
    reason: Reason


# the offset of a record that no answer has told
NO_OFFSET = -1


@dataclass(eq=False, slots=True)
class Exchange:
    """One recorded exchange.

    Attributes:
        frame, answer_frame: bytes as recorded, without the length; None if absent or unusable.
        first_ns, at_ns: first and last byte of the request.
        wall_ns: last byte of the request since 1970, by the clock of the recording's machine.
        client: the address with its port.
        node: recorded node id, None while unknown.
        awaits: False for a request that Kafka does not answer, such as a Produce with acks 0.
        fault: why the request can't be sent as it is; None if it can.
        masked, omitted: spans (start, length) of the request as it arrived.
        answered_ns: last byte of the answer, None if there is none (yet).
        cut_ns: when its connection ended before the answer, and the recording went on: the client may have asked again.
        dropped: partitions that are withheld while the rest is sent.
        connection: the recorded one.
        remembered: of a request that may come again, once it was decoded; else None.
        place, answer_place: where the frames can be read again; None if nowhere, or if the bytes are kept.
    """

    origin: Origin
    api_key: int
    version: int
    frame: bytes | None
    first_ns: int
    at_ns: int
    peer: Peer
    node: int | None = None
    principal: str | None = None
    wall_ns: int = 0
    client: str = ""
    awaits: bool = True
    fault: Reason | None = None
    masked: tuple[tuple[int, int], ...] = ()
    omitted: tuple[tuple[int, int], ...] = ()
    answer_frame: bytes | None = None
    answered_ns: int | None = None
    cut_ns: int | None = None
    dropped: list[Dropped] = field(default_factory=list)
    place: FramePlace | None = None
    answer_place: FramePlace | None = None

    connection: tuple[str, int] = field(init=False, repr=False)
    remembered: RememberedRequest | None = field(default=None, init=False, repr=False)

    _request: Values | None = field(default=None, init=False, repr=False)
    _answer: Values | None = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        self.connection = self.origin[:2]

    @property
    def request(self) -> Values:
        """The recorded request's values. Readers share them: never change them. Records are views.

        Errors: WireError.
        """
        found = self._request
        return self._read() if found is None else found

    def recalled(self) -> RememberedRequest | None:
        """What is remembered of the request, decoded for it; None if it can't come again. Errors: WireError."""
        if self._request is None:
            self._read()
        return self.remembered

    def _read(self) -> Values:
        frame = self.frame or b""
        rest = messages.repeatable(self.api_key, frame)
        if rest is None:
            found = decoded_request(self.api_key, self.version, frame)
        else:
            self.remembered = messages.remembered_request(self.api_key, self.version, rest)
            found = self.remembered.values
        self._request = found
        return found

    def decoded(self) -> Values:
        """The recorded request's values, for the caller to change. Errors: WireError."""
        remembered = self.recalled()
        if remembered is not None:
            return remembered.copy()
        found = self._request
        if found is None or self.api_key != PRODUCE:
            return decoded_request(self.api_key, self.version, self.frame or b"")
        # Values with batches are not copied: the caller gets them, and the next reader decodes the frame again.
        self._request = None
        return found

    @property
    def answer(self) -> Values | None:
        """The recorded answer's values, to read; None if there is no answer or it can't be read."""
        if self._answer is None and self.answer_frame is not None:
            try:
                self._answer = answer_values(self.api_key, self.version, self.answer_frame)
            except WireError:
                return None
        return self._answer

    def take_answer(self, ns: int, frame: bytes | None) -> None:
        """The recorded answer was read; `frame` is None where its bytes can't be used."""
        self.answered_ns, self.answer_frame, self._answer = ns, frame, None

    def drop_answer(self) -> None:
        """Drops the bytes of the recorded answer. They can be read from the capture again."""
        self.answer_frame = self._answer = None

    def forget_values(self) -> None:
        """Drops the decoded values. `request` and `answer` decode the frames again."""
        self._request = self.remembered = self._answer = None

    def forget_large_values(self) -> None:
        """Drops the decoded values of a large request."""
        if self.frame is None or len(self.frame) > SMALL:
            self.forget_values()


@dataclass(frozen=True, slots=True)
class Withheld:
    """A request is not sent. `what`: the value or field that is the cause, for people."""

    reason: Reason
    what: str = ""


class ToLeader(NamedTuple):
    """Destination: the leader of a partition. `topic`: the target's name."""

    topic: str
    partition: int


class ToCoordinator(NamedTuple):
    """Destination: the coordinator of a group (kind 0) or of a transactional id (kind 1). `key`: the target's name."""

    kind: int
    key: str


class ToNode(NamedTuple):
    """Destination: a node, by the target's id; None: any node."""

    node: int | None = None


To = ToLeader | ToCoordinator | ToNode


@dataclass(frozen=True, slots=True)
class MadeRequest:
    """A request of the replay's own.

    Attributes:
        values: in the target's terms, for the codec.
        done: called with the answer's values, or with None when no answer will come.
        newest: the highest version that may be used; None: the highest that both sides know.
        lane: requests of one lane share a connection of their own. A broker reads nothing from a connection until it
            has answered, and the answer to a JoinGroup waits for other members.
        purpose: for people, in the report's list of made requests.
    """

    api_key: int
    values: Values
    to: To
    purpose: str
    done: Callable[[Values | None], None]
    newest: int | None = None
    lane: Hashable = None


@dataclass(frozen=True, slots=True)
class AskFirst:
    """The made requests have to be answered first. Then the engine asks again."""

    made: tuple[MadeRequest, ...]


@dataclass(frozen=True, slots=True)
class Hold:
    """A request waits, until `--wait` is over; then it is withheld for `reason`.

    The engine asks again when anything was settled or time went by. `until`: when it asks at the latest; None: no such
    time.
    """

    reason: Reason
    until: int | None = None


@dataclass(frozen=True, slots=True)
class Resend:
    """The request is sent once more, translated anew, after the requests that it `needs`.

    `partitions`: only these (target's topic name or id, index); None: all.
    """

    partitions: frozenset[tuple[str | bytes, int]] | None = None
    needs: tuple[MadeRequest, ...] = ()


@dataclass(frozen=True, slots=True)
class AnsweredBefore:
    """The request is not sent: an earlier answer of the target answers it too.

    Attributes:
        answer: in the recorded version's shape and the target's terms. Rooms and comparison take it like one that has
            just arrived.
    """

    answer: Values


NotSent = Withheld | AskFirst | Hold | AnsweredBefore
OfferedVersions = Mapping[int, range]
