"""How a member stands in the target's group: a table of states and events. Knows no requests, no groups and no clock.

The recording decides what a member does. This table tells what the target has made of it, and therefore which request
the replay makes for it (`MADE`), so that the target's group goes the way of the recorded one.

    ABSENT      The target does not count it among its group's members, and it is the recording's turn: its next
                recorded join brings it in.
    DROPPED     The target knows it no more, unlike the recorded cluster. It joins again by a made request.
    STABLE      It is in the group, and may send requests that quote its generation or epoch.
    TOLD        As STABLE, and the target has told it to rejoin. Its recorded rejoin may leave. If its group mends
                another member, a made join takes it along.
    TOLD_EARLY  As TOLD, by a heartbeat that the recorded cluster answered without an error: the recorded cluster has
                this rebalance too, but told the member a moment later. That happens once a generation.
    STALE       The target counts it, but its generation or epoch is over. It joins again by a made request. The
                coordinator of a modern group takes a member's join only once the member has left.
    UNSYNCED    It joined by a made request, or its SyncGroup was lost: it has to ask for its assignment.
    UNSURE      Nobody knows its epoch on the target. A made heartbeat asks for it.
    LEAVING     It leaves by a made request, because the recording has lost it, or because it has to leave before its
                recorded join. So the target's group goes on without it.

ABSENT, STABLE and TOLD are *settled*: recorded requests leave. In all other states they wait until the made requests
have led to a settled one. Four rules make the table:

  * A join that the target takes settles a member, whatever it was.
  * The recording outweighs the target: what makes a member STALE, UNSURE or DROPPED brings nobody back who is LEAVING,
    or whom the recording has lost. Its next recorded join does.
  * A member that has to join again needs neither its assignment nor its epoch. One that is told to rejoin while it
    lacks its assignment will not get that any more: it joins again.
  * What has no client any more (its recorded connections have ended) is not mended.

Members of classic groups are never UNSURE, those of modern groups never UNSYNCED, and nobody tells them to rejoin. The
other states and their events are theirs alike, so both have one table.
"""

from __future__ import annotations

from enum import Enum, auto


class MemberState(Enum):
    """How a member stands in the target's group.

    Attributes:
        present: the target counts the member among its group's.
        settled: recorded requests that quote the member's generation may leave.
        told: the target has told the member to rejoin.
        joins_again: a made join is to bring the member into a generation.
    """

    present: bool
    settled: bool
    told: bool
    joins_again: bool

    ABSENT = auto()
    DROPPED = auto()
    STABLE = auto()
    TOLD = auto()
    TOLD_EARLY = auto()
    STALE = auto()
    UNSYNCED = auto()
    UNSURE = auto()
    LEAVING = auto()

    def made(self, *, classic: bool) -> Made | None:
        """The request that the replay makes for a member in this state. `classic`: of a classic group."""
        return MADE[self][0 if classic else 1]

    def after(self, event: Event) -> MemberState:
        """The state that an event leads to."""
        return _NEXT[self, event]


class Event(Enum):
    """What happens to a member."""

    # the target took its join, or answered its heartbeat in a modern group
    JOINED = auto()
    # it has no assignment of its generation, and no recorded request will ask for it
    UNASSIGNED = auto()
    # the target gave it its assignment
    SYNCED = auto()
    # the target told it to rejoin; EARLY: before the recorded cluster did
    TOLD = auto()
    TOLD_EARLY = auto()
    # it must join again: the target refused its generation, or needs its join for a rebalance
    MUST_JOIN = auto()
    # its join was lost, and nobody knows whether the target took it
    JOIN_LOST = auto()
    # the target does not know it, unlike the recorded cluster
    UNKNOWN = auto()
    # its heartbeat was lost, or its epoch is not the target's
    EPOCH_LOST = auto()
    # the recording lost it, and the target may still have it
    EXPELLED = auto()
    # its recorded join was refused, because the target still has it
    STILL_THERE = auto()
    # a made request has it leave, or the target does not know it, as in the recording
    GONE = auto()
    # it left by a recorded request, or another member has its static name now
    LEFT = auto()
    # its recorded connections have ended
    SILENT = auto()


class Made(Enum):
    """A request that the replay makes for a member."""

    LEAVE = auto()
    JOIN = auto()
    # a join while its group mends another member, else a heartbeat
    JOIN_ALONG = auto()
    # a SyncGroup; a heartbeat while the assignment of its generation is not known
    SYNC = auto()
    HEARTBEAT = auto()


_ABSENT, _DROPPED, _STABLE, _TOLD, _EARLY, _STALE, _UNSYNCED, _UNSURE, _LEAVING = MemberState

TRANSITIONS = {
    # in               ABSENT     DROPPED    STABLE     TOLD       TOLD_EARLY STALE     UNSYNCED   UNSURE     LEAVING
    Event.JOINED:      (_STABLE,  _STABLE,   _STABLE,   _STABLE,   _STABLE,   _STABLE,  _STABLE,   _STABLE,   _STABLE),
    Event.UNASSIGNED:  (_ABSENT,  _DROPPED,  _UNSYNCED, _STALE,    _STALE,    _STALE,   _UNSYNCED, _UNSURE,   _LEAVING),
    Event.SYNCED:      (_ABSENT,  _DROPPED,  _STABLE,   _TOLD,     _EARLY,    _STALE,   _STABLE,   _UNSURE,   _LEAVING),
    Event.TOLD:        (_ABSENT,  _DROPPED,  _TOLD,     _TOLD,     _EARLY,    _STALE,   _STALE,    _UNSURE,   _LEAVING),
    Event.TOLD_EARLY:  (_ABSENT,  _DROPPED,  _EARLY,    _EARLY,    _EARLY,    _STALE,   _STALE,    _UNSURE,   _LEAVING),
    Event.MUST_JOIN:   (_DROPPED, _DROPPED,  _STALE,    _STALE,    _STALE,    _STALE,   _STALE,    _STALE,    _LEAVING),
    Event.JOIN_LOST:   (_ABSENT,  _DROPPED,  _STALE,    _STALE,    _STALE,    _STALE,   _STALE,    _STALE,    _LEAVING),
    Event.UNKNOWN:     (_DROPPED, _DROPPED,  _DROPPED,  _DROPPED,  _DROPPED,  _DROPPED, _DROPPED,  _DROPPED,  _ABSENT),
    Event.EPOCH_LOST:  (_ABSENT,  _DROPPED,  _UNSURE,   _UNSURE,   _UNSURE,   _STALE,   _UNSYNCED, _UNSURE,   _LEAVING),
    Event.EXPELLED:    (_ABSENT,  _ABSENT,   _LEAVING,  _LEAVING,  _LEAVING,  _LEAVING, _LEAVING,  _LEAVING,  _LEAVING),
    Event.STILL_THERE: (_LEAVING, _LEAVING,  _LEAVING,  _LEAVING,  _LEAVING,  _LEAVING, _LEAVING,  _LEAVING,  _LEAVING),
    Event.GONE:        (_ABSENT,  _DROPPED,  _ABSENT,   _ABSENT,   _ABSENT,   _DROPPED, _ABSENT,   _ABSENT,   _ABSENT),
    Event.LEFT:        (_ABSENT,  _ABSENT,   _ABSENT,   _ABSENT,   _ABSENT,   _ABSENT,  _ABSENT,   _ABSENT,   _ABSENT),
    Event.SILENT:      (_ABSENT,  _ABSENT,   _STABLE,   _TOLD,     _EARLY,    _STABLE,  _STABLE,   _STABLE,   _LEAVING),
}  # fmt: skip
_NEXT = {(state, event): row[at] for event, row in TRANSITIONS.items() for at, state in enumerate(MemberState)}

# what the replay makes for a member, unless a recorded request of it is under way
MADE = {
    # state            in a classic group  in a modern one
    MemberState.ABSENT:     (None,               None),
    MemberState.DROPPED:    (Made.JOIN,          Made.JOIN),
    MemberState.STABLE:     (Made.HEARTBEAT,     Made.HEARTBEAT),
    MemberState.TOLD:       (Made.JOIN_ALONG,    Made.HEARTBEAT),
    MemberState.TOLD_EARLY: (Made.JOIN_ALONG,    Made.HEARTBEAT),
    MemberState.STALE:      (Made.JOIN,          Made.LEAVE),
    MemberState.UNSYNCED:   (Made.SYNC,          Made.HEARTBEAT),
    MemberState.UNSURE:     (Made.HEARTBEAT,     Made.HEARTBEAT),
    MemberState.LEAVING:    (Made.LEAVE,         Made.LEAVE),
}  # fmt: skip

# each request of a member asks: an attribute costs no call
for _state in MemberState:
    _state.present = _state not in (MemberState.ABSENT, MemberState.DROPPED)
    _state.told = _state in (MemberState.TOLD, MemberState.TOLD_EARLY)
    _state.settled = _state.told or _state in (MemberState.ABSENT, MemberState.STABLE)
    _state.joins_again = _state in (MemberState.DROPPED, MemberState.STALE)
