"""An exchange in play (`Item`), and the recorded connection that it belongs to (`Lane`)."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Protocol

from recorder.replay.engine.channels import Channel
from recorder.replay.engine.routes import Route
from recorder.replay.engine.timers import Timer
from recorder.replay.outcome import Cause
from recorder.replay.plan import Exchange, Hold, Values
from recorder.replay.requests.order import Keys
from recorder.replay.requests.refused_parts import Parts


class ItemState(Enum):
    """How far an item is."""

    QUEUED = auto()  # waits for its turn
    HANDED_OVER = auto()  # to its channels: its bytes may still wait for their connection
    RETRYING = auto()  # will be sent once more
    ANSWERED = auto()  # by the target; the recorded answer is not read yet
    SETTLED = auto()  # answered on both sides, withheld or lost: no item waits for it any more


class Ends(Protocol):
    """Takes what becomes of the requests of an item's pieces."""

    def take(self, piece: Piece, answer: Values | None, frame: bytes | None, now: int) -> None:
        """Takes the answer to one request; None: it needs no answer, or its connection broke."""

    def left(self, item: Item, given: int, began: int) -> None:
        """The first byte of a request was written at `began`. `given`: since when it could be written."""

    def take_unsent(self, piece: Piece, now: int) -> None:
        """The connection broke before any byte of a request was written."""


@dataclass(eq=False, slots=True)
class Piece:
    """The part of an item for one node: one request, or several if the target's version takes less in each.

    Attributes:
        ends: takes what becomes of the requests, whose sender the piece is.
        part: the values for this node, in the recorded version's shape; `requests`: in that of `version`.
        answers: in the order of their requests; `missing`: how many have not come.
    """

    item: Item
    ends: Ends
    channel: Channel
    version: int
    part: Values
    requests: list[Values]
    missing: int
    answers: list[Values] = field(default_factory=list)

    def answered(self, answer: Values | None, frame: bytes | None, now: int) -> None:
        """See `channels.Sender`, as for the methods below."""
        self.ends.take(self, answer, frame, now)

    def left(self, given: int, began: int) -> None:
        self.ends.left(self.item, given, began)

    def unsent(self, now: int) -> None:
        self.ends.take_unsent(self, now)


@dataclass(eq=False, slots=True)
class Item:
    """One exchange in play.

    Attributes:
        route: what is done with requests of its kind.
        due: when it should leave.
        size: bytes that it counts of `--memory`.
        lacks_bytes: its frame has to be loaded before it leaves.
        request_row, answer_row: numbers of its recorded request and answer among all those read; 0: not read yet.
        is_dialled: its nodes were dialled before it was due.
        before: items that must have left before it does; `followers`: lanes that wait until it has left.
        is_held_back: when it was last looked at, it had to wait for other items.
        cause: what it waited for last, which made it late.
        ready_at: since when only the replay itself has kept it.
        sent_at: when it was last routed and written.
        needed: made requests for it that are not answered yet; `rounds`: how often it needed some.
        refused: its parts that the recording refused, which are not sent; None until it was first tried.
        hold: why a room holds it back; None if no room does.
        values: as they were sent, in the recorded version's shape.
        answers: of its parts, each in the recorded version's shape; `frame`, `version`: of the last one, as received.
        carriers: other lanes whose channels carry parts of it.
        parts_in_flight: how many have no answer; `lost_connection`: one lost its own, `is_unsent`: before it left.
        left_at: when its first byte left; `is_counted`: it was counted as sent.
        is_recording_done: the recorded answer was read, or will never come.
        deadline: when it is given up; None until it is due.
        pause: the last pause before it was sent once more.
    """

    exchange: Exchange
    route: Route
    keys: Keys
    lane: Lane
    due: int
    size: int = 0
    lacks_bytes: bool = False
    state: ItemState = ItemState.QUEUED
    request_row: int = 0
    answer_row: int = 0
    is_dialled: bool = False
    before: list[Item] = field(default_factory=list)
    followers: list[Lane] = field(default_factory=list)
    is_held_back: bool = False
    cause: Cause = Cause.REPLAY
    ready_at: int | None = None
    sent_at: int = 0
    needed: int = 0
    rounds: int = 0
    refused: Parts | None = None
    hold: Hold | None = None
    values: Values | None = None
    answers: list[Values] = field(default_factory=list)
    frame: bytes | None = None
    version: int | None = None
    pieces: list[Piece] = field(default_factory=list)
    carriers: list[Lane] = field(default_factory=list)
    parts_in_flight: int = 0
    lost_connection: bool = False
    is_unsent: bool = False
    left_at: int | None = None
    answered_at: int | None = None
    is_recording_done: bool = False
    is_counted: bool = False
    deadline: int | None = None
    pause: int = 0

    @property
    def is_in_flight(self) -> bool:
        """True while the target has all of the item and owes an answer."""
        is_sent = self.state is ItemState.HANDED_OVER and all(piece.channel.is_open for piece in self.pieces)
        return is_sent and self.exchange.awaits

    def forget(self) -> None:
        """Drops frames, values and answers."""
        self.exchange.frame = self.exchange.answer_frame = self.values = self.frame = None
        self.exchange.forget_values()
        self.answers, self.pieces, self.carriers, self.before = [], [], [], []


@dataclass(eq=False)
class Lane:
    """A recorded connection: its requests in order, and its channels to the target's nodes.

    Attributes:
        connection: None for a lane of the replay's own requests.
        in_play: items that have left and are not settled.
        carries: such items of other lanes that use this lane's channels.
        unread: items whose recorded answer was not read yet, by the number of their exchange.
        admitted: whose requests may leave by their heads: route, client id and principal (`world.refused_by_head`).
        closes_at: when the end of the recorded connection is due; None while that was not read.
        look_timer: the timer for the next look at the head of the queue.
        is_watched: a timer runs for answers that don't come.
        dials: nodes that could not be reached -> pause, and when it is over.
    """

    connection: tuple[str, int] | None
    principal: str | None = None
    queue: deque[Item] = field(default_factory=deque)
    channels: dict[int, Channel] = field(default_factory=dict)
    in_play: dict[Item, None] = field(default_factory=dict)
    carries: dict[Item, None] = field(default_factory=dict)
    unread: dict[int, Item] = field(default_factory=dict)
    admitted: set[tuple[Route, str | None, str | None]] = field(default_factory=set)
    closes_at: int | None = None
    look_timer: Timer | None = None
    is_watched: bool = False
    dials: dict[int, tuple[int, int]] = field(default_factory=dict)
