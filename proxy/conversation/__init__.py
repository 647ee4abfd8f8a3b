"""One connection's exchanges, sans-IO: bytes of either side in, exchanges and marks out.

frame      a 4-byte length and that many bytes: one request or one response
exchange   a request and the response with its correlation id (or none: acks=0, one-way, connection lost)
step       the result of one chunk: exchanges that it finished, marks of frames to look at, bytes that may be sent on
mark       a piece of a frame that its route marks for somebody
verdict    the stream offset where bare login tokens begin or end
opaque     forwarded without being understood
dialect    the protocol that a connection speaks; its routes decide: `Routes`, or `Routes07`
"""

from proxy.conversation.conversation import Conversation
from proxy.conversation.exchange import Cause, Direction, Exchange, FrameKind, OpaqueReason, timings
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
    "Verdict",
    "timings",
]
