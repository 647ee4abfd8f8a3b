"""An exchange in play, and the recorded connection that it is played for."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from enum import Enum, auto

from recorder.replay.engine.channels import Channel
from recorder.replay.engine.timers import Timer
from recorder.replay.outcome import Cause
from recorder.replay.plan import Exchange, Hold, Values
from recorder.replay.requests.order import Keys


class State(Enum):
    """How far an item is."""

    QUEUED = auto()  # has not left
    LEFT = auto()  # the target has it, or a part of it
    RETRYING = auto()  # will be sent once more
    ANSWERED = auto()  # by the target; the recording's answer is not read yet
    SETTLED = auto()  # answered on both sides, withheld or lost: nobody waits for it any more


@dataclass(eq=False, slots=True)
class Piece:
    """What of an item goes to one node: one request, or several where the target's version takes less in each.

    Attributes:
        part: the values for this node, in the recorded version's shape; `requests`: in that of `version`.
        missing: answers that have not come; `answers`: those that have, in the order of their requests.
    """

    channel: Channel
    version: int
    part: Values
    requests: list[Values]
    missing: int = 0
    answers: list[Values] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.missing = len(self.requests)

    def take(self, answer: Values) -> bool:
        """An answer has come; True with the last one. One connection answers in the order of the requests."""
        self.answers.append(answer)
        self.missing -= 1
        return not self.missing


@dataclass(eq=False, slots=True)
class Item:
    """One exchange in play.

    Attributes:
        due: when it should leave.
        size: what it counts of `--memory`; `lacks_bytes`: they have to be loaded before it leaves.
        asked_row, told_row: when the recording asked and answered, among all its rows; 0: not read yet.
        is_dialled: the nodes that it will go to were dialled before it was due.
        before: the requests that must have left before it does; `followers`: lanes that wait until it has left.
        cause: what it waited for last, and what made it late.
        ready_at: since when nothing but the replay itself has kept it.
        sent_at: when it was last routed and written.
        needed: made requests that are out for it.
        hold: why a room holds it back; None: none does.
        values: as they were sent, in the recorded version's shape.
        answers: of its parts, each in the recorded version's shape; `frame`, `version`: of the last one, as it came.
        carriers: other lanes that carry parts of it.
        out: parts in flight; `is_cut`: one of them has lost its connection, `is_unsent`: before it left.
        is_known: the recorded answer was read, or will never come.
        deadline: when it is given up; None: not yet asked for.
    """

    exchange: Exchange
    keys: Keys
    lane: Lane
    due: int
    size: int = 0
    lacks_bytes: bool = False
    state: State = State.QUEUED
    asked_row: int = 0
    told_row: int = 0
    is_dialled: bool = False
    before: list[Item] = field(default_factory=list)
    followers: list[Lane] = field(default_factory=list)
    cause: Cause = Cause.REPLAY
    ready_at: int | None = None
    sent_at: int = 0
    needed: int = 0
    rounds: int = 0
    hold: Hold | None = None
    values: Values | None = None
    answers: list[Values] = field(default_factory=list)
    frame: bytes | None = None
    version: int | None = None
    pieces: list[Piece] = field(default_factory=list)
    carriers: list[Lane] = field(default_factory=list)
    out: int = 0
    is_cut: bool = False
    is_unsent: bool = False
    left_at: int | None = None
    answered_at: int | None = None
    is_known: bool = False
    has_left: bool = False
    deadline: int | None = None
    pause: int = 0

    @property
    def is_out(self) -> bool:
        """True while the target has all of it and owes an answer."""
        is_sent = self.state is State.LEFT and all(piece.channel.is_open for piece in self.pieces)
        return is_sent and self.exchange.awaits

    def forget(self) -> None:
        """Drops everything that only mattered on the way."""
        self.exchange.frame = self.exchange.answer_frame = self.values = self.frame = None
        self.exchange.forget_values()
        self.answers, self.pieces, self.carriers, self.before = [], [], [], []


@dataclass(eq=False)
class Lane:
    """A recorded connection: its requests in order, and its connections to the target's nodes.

    Attributes:
        in_play: left, not settled; `carries`: those of other lanes that the channels of this one carry.
        unread: exchanges whose recorded answer was not read yet, by number.
        look: when the head of the queue is looked at again; `watched`: somebody looks for answers that don't come.
        dials: node -> how long and until when it is not dialled again, because it could not be reached.
    """

    connection: tuple[str, int] | None
    principal: str | None = None
    queue: deque[Item] = field(default_factory=deque)
    channels: dict[int, Channel] = field(default_factory=dict)
    in_play: dict[Item, None] = field(default_factory=dict)
    carries: dict[Item, None] = field(default_factory=dict)
    unread: dict[int, Item] = field(default_factory=dict)
    closes_at: int | None = None
    look: Timer | None = None
    watched: bool = False
    dials: dict[int, tuple[int, int]] = field(default_factory=dict)
