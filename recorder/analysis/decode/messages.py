"""Makes the rows of `messages`: whole frames as JSON, as `kafka-wiretap inspect show --json` prints them.

Messages inside messages are decoded. Record batches are shown by their headers, without records. A masked value is
never shown as a real one.
"""

from __future__ import annotations

from collections.abc import Iterator

from proxy.tools.body import body
from proxy.tools.json_text import pieces
from proxy.tools.tree import Shown
from proxy.wire.budget import Budget
from proxy.wire.dialects import Dialect
from proxy.wire.error_reader import Unread
from recorder.facts.frame import REQUEST, RESPONSE, Frame, Unreadable, opened
from recorder.facts.rows import Decoder, FrameSelector, Group
from recorder.facts.schema import Column

_OWN = (Column("body", "string", "the body as JSON; `parse_json` makes a variant of it"),)
# the most characters of a body's JSON
MOST_TEXT = 16 << 20


def read(frame: Frame, budget: Budget) -> Iterator[Group]:
    """The frame's body. Errors: Unreadable."""
    if frame.api_version is None or frame.dialect != Dialect.KAFKA:
        raise Unreadable(Unread.UNKNOWN_VERSION)
    masked = frame.masked_from
    shown = Shown(masked is not None, 0, budget)
    tree = body(frame.data, frame.side, frame.api_key, frame.api_version, shown, masked_from=masked)
    if tree.values is None:
        # raises Unreadable, with the reason that all tables give
        opened(frame, Budget(budget.size))
        raise Unreadable(Unread.MALFORMED)
    text = Budget(MOST_TEXT).text
    written = "".join(pieces(tree.values, text))
    if text.is_used_up or budget.used_up:
        raise Unreadable(Unread.TOO_LARGE)
    yield Group((), [(written,)], size=len(written))


MESSAGES = Decoder(
    "messages", "a frame, decoded", (FrameSelector(REQUEST, None), FrameSelector(RESPONSE, None)), (), _OWN, read
)
