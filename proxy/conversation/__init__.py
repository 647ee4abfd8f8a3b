"""One connection's exchanges, sans-IO: bytes of either side in, exchanges and marks out.

    conversation.py   one connection: takes chunks of either side, returns a step for each
    requests.py       the client's direction      responses.py  the broker's direction
    side.py           what both directions have in common
    shared_state.py   state that both directions share
    exchange.py       a request and its response; their times
    step.py           the result of one chunk
    routes.py         the treatment of each API and version
    acks.py           finds the acks of a Produce request
    login.py          logins by bare tokens
    kafka07.py        the dialect of Kafka 0.7

frame      a 4-byte length and that many bytes: one request or one response
exchange   a request and the response with its correlation id (or none: acks=0, one-way, connection lost)
step       the result of one chunk: exchanges that it finished, marks of frames to look at, bytes that may be sent on
mark       a piece of a frame that the recorder may mask, or the relay rewrite
own answer the proxy's own response, to a request that no broker sees
verdict    a decision: from a stream offset on, a direction's frames are bare login tokens, or have heads
opaque     forwarded without being understood
dialect    the protocol that a connection speaks; its routes decide it: `Routes`, or `Routes07`
"""

from proxy.conversation.conversation import Conversation
from proxy.conversation.exchange import Cause, Direction, Exchange, FrameKind, OpaqueReason, Unexpected, timings
from proxy.conversation.kafka07 import Routes07
from proxy.conversation.routes import Routes
from proxy.conversation.step import Edit, Mark, Step, Verdict

__all__ = [
    "Cause",
    "Conversation",
    "Direction",
    "Edit",
    "Exchange",
    "FrameKind",
    "Mark",
    "OpaqueReason",
    "Routes",
    "Routes07",
    "Step",
    "Unexpected",
    "Verdict",
    "timings",
]
