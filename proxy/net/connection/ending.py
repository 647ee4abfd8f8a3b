"""How one client's connection ends: a table of states and events. Knows no sockets, no tasks and no clock.

Whatever decides why and when a connection ends stands here; `relay.py` says what happens, and obeys.

A connection rarely ends at once: each side closes on its own, and responses may be on their way between the two.

    OPEN        Requests and responses pass.
    DRAINING    The proxy wants the end: it stops, or nothing has moved for long. The relay reads on to the end of the
                request that has begun, and no further.
    FINISHED    The client wants the end: it has sent its end of stream, or a request that is not passed on. The relay
                reads no more requests. The broker learns of the end once no response is owed, because a broker drops
                the responses that it owes when it reads an end of stream.
    ENDED       Nothing passes any more.

The machine holds a cause beside the state. In ENDED it is why the connection has ended; in DRAINING and FINISHED it is
why it will end, unless an event ends it first. Three rules make the table:

  * The first event that ends a connection is its cause. Only a fault of the proxy itself replaces a cause.
  * A client that has finished has had its way: how the two peers go after that is no cause.
  * A failed send ends nothing. What the lost peer had sent before is still in the socket and is passed on: responses
    to the client, requests that need no response to the broker. Only when that is read, up to the peer's end of
    stream, does the connection end; `note_loss` has that end of stream be called a loss then.
"""

from __future__ import annotations

from enum import Enum, auto

from proxy.conversation import Cause, Direction


class State(Enum):
    """How far the end of a connection has come."""

    OPEN = auto()
    DRAINING = auto()
    FINISHED = auto()
    ENDED = auto()


class Event(Enum):
    """What happens to a connection, as far as its end goes."""

    # the proxy wants it to end behind the request that has begun
    LEAVE = auto()
    # the client sends no more: its end of stream
    FINISH = auto()
    # a request is not passed on, and the connection ends once the requests before it are answered
    REFUSE = auto()
    # no response is owed any more, or they have been waited for long enough
    SETTLE = auto()
    # one of the two peers is gone: the broker's end of stream, a reset or a loss of either
    PEER_GONE = auto()
    # the connection must end now
    CUT = auto()
    # a fault of the proxy itself
    FAULT = auto()


_OPEN, _DRAINING, _FINISHED, _ENDED = State
# which cause counts: the one that the machine holds, or the event's
_HELD, _NEW = False, True

TRANSITIONS = {
    # event            in OPEN            in DRAINING        in FINISHED        in ENDED
    Event.LEAVE:     ((_DRAINING, _NEW), (_DRAINING, _HELD), (_FINISHED, _HELD), (_ENDED, _HELD)),
    Event.FINISH:    ((_FINISHED, _NEW), (_FINISHED, _NEW),  (_FINISHED, _HELD), (_ENDED, _HELD)),
    Event.REFUSE:    ((_FINISHED, _NEW), (_FINISHED, _NEW),  (_FINISHED, _HELD), (_ENDED, _HELD)),
    Event.SETTLE:    ((_OPEN, _HELD),    (_ENDED, _HELD),    (_ENDED, _HELD),    (_ENDED, _HELD)),
    Event.PEER_GONE: ((_ENDED, _NEW),    (_ENDED, _NEW),     (_ENDED, _HELD),    (_ENDED, _HELD)),
    Event.CUT:       ((_ENDED, _NEW),    (_ENDED, _NEW),     (_ENDED, _NEW),     (_ENDED, _HELD)),
    Event.FAULT:     ((_ENDED, _NEW),    (_ENDED, _NEW),     (_ENDED, _NEW),     (_ENDED, _NEW)),
}  # fmt: skip
_TABLE = {(state, event): row[at] for event, row in TRANSITIONS.items() for at, state in enumerate(State)}


class Ending:
    """The machine of one connection.

    cause: see above; None while it is OPEN.
    """

    __slots__ = ("_losses", "cause", "state")

    def __init__(self) -> None:
        self.state = State.OPEN
        self.cause: Cause | None = None
        self._losses: dict[Direction, Cause] = {}

    def on(self, event: Event, cause: Cause | None = None) -> None:
        """Something has happened. `cause`: why the connection ends if it ends of this; None with SETTLE."""
        self.state, is_new = _TABLE[self.state, event]
        if is_new:
            self.cause = cause

    def note_loss(self, peer: Direction, cause: Cause) -> None:
        """A send has found a peer gone; `peer` is the direction of what that peer sends. The first loss counts."""
        self._losses.setdefault(peer, cause)

    def end_of_stream(self, peer: Direction) -> None:
        """All that a peer has sent has been read; `peer` is its direction."""
        loss = self._losses.get(peer)
        if loss is not None:
            self.on(Event.PEER_GONE, loss)
        elif peer is Direction.REQUEST:
            self.on(Event.FINISH, Cause.CLIENT_CLOSED)
        else:
            self.on(Event.PEER_GONE, Cause.BROKER_CLOSED)
