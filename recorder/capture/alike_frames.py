"""Finds chunks that hold one whole frame, as most do, and chunks whose frames are alike.

Used by `streams`. Where a frame fills its chunk, nothing need be asked of where it lies, nor of what is around it.

A client that pipelines sends many frames of one size and API at a time. The rows of such frames differ only in numbers
that count up, so `columns` keeps one row and a count. The frames of a chunk are compared by columns, with numpy. Of
requests that are alike, the numbers are noted: their responses have alike rows if they are of one size.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from proxy.conversation.conversation import Conversation
from proxy.conversation.exchange import FrameKind
from proxy.conversation.step import Step
from proxy.wire.dialects import Dialect
from proxy.wire.framing import LENGTH
from proxy.wire.headers import CLIENT_ID_SIZE_AT
from recorder.capture.connection_state import ConnectionState
from recorder.capture.frame_spans import FrameSpan, new_span

# fewer frames of a chunk are taken one by one, which takes as long
FEW = 8
# by direction
_KINDS = FrameKind.REQUEST, FrameKind.RESPONSE


def lone_frame(conversation: Conversation, direction: int, step: Step, bytes_left: int) -> list[FrameSpan]:
    """The frame of a step in which one request began or one response ended, if nothing else is in the step; else none.

    None, too, for a frame that nobody understands, whose row has a note. No frame was arriving before the step.
    `bytes_left`: of a frame that is arriving behind it.
    """
    if not _may_be_alike(step, 1, bytes_left):
        return []
    exchange = step.finished[0] if direction else conversation.in_flight[-1]
    span = new_span(FrameSpan, (_KINDS[direction], exchange, 0, len(step.data)))
    return [span] if exchange.opaque is None else []


def alike_requests(conn: ConnectionState, conversation: Conversation, step: Step, first: int) -> list[FrameSpan]:
    """The first of the requests in a step, if all are whole and alike but for correlation ids that count up; else none.

    They are FEW at least, and no frame was arriving before the step. `first`: the number of the first request in it.
    """
    count = conversation.next_request_number - first
    if not _may_be_alike(step, count, conversation.requests_side.bytes_left) or conn.dialect is not Dialect.KAFKA:
        return []
    length, client_id = len(step.data) // count, conn.usual_client_id_bytes
    head = _request_head(len(client_id))
    if length < head.itemsize:
        return []
    heads: Any = np.ndarray((count,), head, step.data, strides=(length,))
    exchange = conversation.in_flight[-count]
    ids = range(exchange.correlation_id or 0, (exchange.correlation_id or 0) + count)
    sizes_and_apis = heads["size_and_api"]
    if not (
        exchange.request_size == length - LENGTH.size
        and (sizes_and_apis == sizes_and_apis[0]).all()
        and heads["correlation_id"].tolist() == [*ids]
        and (heads["client_id"] == client_id).all()
    ):
        return []
    conn.alike_requests.append((first, first + count))
    return [FrameSpan(FrameKind.REQUEST, exchange, 0, length)]


def alike_responses(conn: ConnectionState, step: Step, bytes_left: int) -> list[FrameSpan]:
    """The first two of the responses in a step, if all are whole and answer alike requests in one size; else none.

    Of all but the first, the time in the queue is the same. They are FEW at least, and no frame was arriving before the
    step. `bytes_left`: of a frame that is arriving behind it.
    """
    finished, runs = step.finished, conn.alike_requests
    count = len(finished)
    while runs and runs[0][1] <= finished[0].number:
        runs.popleft()
    if not runs or not _may_be_alike(step, count, bytes_left):
        return []
    first, last = finished[0].number, finished[-1].number
    if not (runs[0][0] <= first and last < runs[0][1] and last - first == count - 1):
        return []
    length = len(step.data) // count
    sizes: Any = np.ndarray((count,), _SIZE, step.data, strides=(length,))
    if not (sizes == length - LENGTH.size).all():
        return []
    spans = enumerate(finished[:2])
    return [FrameSpan(FrameKind.RESPONSE, one, number * length, (number + 1) * length) for number, one in spans]


def bodies(data: bytes, length: int, first: int) -> bytes:
    """The frames in `data` from frame `first` on, without their lengths. `length`: the bytes of each, with its own."""
    return np.frombuffer(data, np.uint8).reshape(-1, length)[first:, LENGTH.size :].tobytes()


def _may_be_alike(step: Step, count: int, bytes_left: int) -> bool:
    """True if a step has nothing but so many whole, plain frames, and these may be of one size."""
    if bytes_left or step.chunk_at or step.stop < len(step.data) or len(step.data) % count:
        return False
    return not (step.marks or step.edits or step.one_way or step.unanswered or step.opaque_reasons)


_SIZE = np.dtype(">i4")


@lru_cache
def _request_head(client_id: int) -> np.dtype[Any]:
    """The head of a request with its length. `client_id`: the bytes of the client id, its size included."""
    fields = [("size_and_api", ">i8"), ("correlation_id", ">i4"), ("client_id", f"S{client_id}")]
    head = np.dtype(fields)
    assert head.fields is not None
    assert head.fields["client_id"][1] == LENGTH.size + CLIENT_ID_SIZE_AT
    return head
