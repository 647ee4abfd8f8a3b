"""One connection's exchanges, sans-IO: bytes of either side in, their meaning out.

frame      a 4-byte length and that many bytes: one request or one response
exchange   a request and the response with its correlation id (or none: acks=0, one-way, connection lost)
step       what one chunk brought: which exchanges it finished, which frames somebody asked to see, what may be sent on
mark       a piece of such a frame
verdict    where bare login tokens begin and end
opaque     forwarded without being understood
dialect    what a connection speaks; its routes say which: `Routes`, or `Routes07`
"""

from proxy.conversation.conversation import Conversation
from proxy.conversation.exchange import (
    Cause,
    Direction,
    Exchange,
    FrameKind,
    OpaqueReason,
    Timings,
    timings,
)
from proxy.conversation.kafka07 import Routes07
from proxy.conversation.routes import Route, Routes
from proxy.conversation.step import Edit, Mark, Step, Verdict
from proxy.wire.framing import FrameLimits

__all__ = [
    "Cause",
    "Conversation",
    "Direction",
    "Edit",
    "Exchange",
    "FrameKind",
    "FrameLimits",
    "Mark",
    "OpaqueReason",
    "Route",
    "Routes",
    "Routes07",
    "Step",
    "Timings",
    "Verdict",
    "timings",
]
