"""How one client's connection ends: a table of states and events. Knows no sockets, no tasks and no clock.

This table alone decides why and when a connection ends. `relay.py` reports events to it, and does what it decides.

A connection rarely ends at once: each peer closes on its own, and responses may still be on their way.

    OPEN        Requests and responses pass.
    DRAINING    The proxy ends the connection: the proxy stops, or nothing has moved for long, or the connection has
                reached its age. The relay reads on to the end of the request that has begun, and no further.
    FINISHED    The client causes the end, by its end of stream or by a request that is not passed on. The relay reads
                no more requests, and waits until no response is owed, within a time limit. Only then does it pass on
                the client's end of stream, because a broker that reads an end of stream drops the responses that it
                owes. A client that ends its TLS stream takes no more responses: the relay passes the end on at once.
    ENDED       Nothing passes any more.

The machine holds a cause beside the state. In ENDED the cause is why the connection has ended. In DRAINING and FINISHED
it is why the connection will end, unless another event ends it first. Three rules make the table:

  * Once a connection has ended, only a fault of the proxy itself replaces the cause.
  * A client that finishes gives the cause, also while DRAINING. A peer that is gone later does not replace that cause.
  * A failed send ends nothing at once (except a send to a client that has finished): bytes that the lost peer had sent
    before are still in the socket, and are passed on: a broker's last responses, a client's last requests (acks=0 needs
    no response). The connection ends at the peer's end of stream; `note_loss` makes that end of stream count as a loss.
"""

from __future__ import annotations

from enum import Enum, auto

from proxy.conversation import Cause, Direction


class State(Enum):
    """The state of a connection, as far as its end goes."""

    OPEN = auto()
    DRAINING = auto()
    FINISHED = auto()
    ENDED = auto()


class Event(Enum):
    """What happens to a connection, as far as its end goes."""

    # the proxy ends the connection after the request that has begun
    DRAIN = auto()
    # the client sends no more: its end of stream
    FINISH = auto()
    # a request is not passed on: the connection ends once the requests before it are answered
    REFUSE = auto()
    # the relay's last wait is over: for owed responses, or for the broker to close after the client's end of stream
    SETTLE = auto()
    # one of the two peers is gone: the broker's end of stream, or a reset or a loss of either peer
    PEER_GONE = auto()
    # the connection must end now
    CUT = auto()
    # a fault of the proxy itself
    FAULT = auto()


_OPEN, _DRAINING, _FINISHED, _ENDED = State
# which cause counts: the one that the machine holds, or the one that comes with the event
_HELD, _NEW = False, True

TRANSITIONS = {
    # event            in OPEN            in DRAINING        in FINISHED        in ENDED
    Event.DRAIN:     ((_DRAINING, _NEW), (_DRAINING, _HELD), (_FINISHED, _HELD), (_ENDED, _HELD)),
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

    cause: why the connection ends or has ended; None while the state is OPEN.
    """

    __slots__ = ("_losses", "cause", "state")

    def __init__(self) -> None:
        self.state = State.OPEN
        self.cause: Cause | None = None
        self._losses: dict[Direction, Cause] = {}

    def on(self, event: Event, cause: Cause | None = None) -> None:
        """Handles an event. `cause`: why the connection ends, if this event is the reason; unused with SETTLE."""
        self.state, is_new = _TABLE[self.state, event]
        if is_new:
            self.cause = cause

    def note_loss(self, peer: Direction, cause: Cause) -> None:
        """A send has found a peer gone. `peer`: the direction in which that peer sends. Its first loss counts."""
        self._losses.setdefault(peer, cause)

    def end_of_stream(self, peer: Direction) -> None:
        """Everything that a peer has sent has been read. `peer`: the direction in which that peer sends."""
        loss = self._losses.get(peer)
        if loss is not None:
            self.on(Event.PEER_GONE, loss)
        elif peer is Direction.REQUEST:
            self.on(Event.FINISH, Cause.CLIENT_CLOSED)
        else:
            self.on(Event.PEER_GONE, Cause.BROKER_CLOSED)
