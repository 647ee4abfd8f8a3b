"""Feeds chunks to a conversation, and finds all of their frames, as `streams` does with those that are not alike."""

from __future__ import annotations

from proxy.conversation.conversation import Conversation
from proxy.conversation.exchange import FrameKind
from proxy.conversation.step import Step
from recorder.capture.frame_spans import ArrivingFrame, FrameSpan, request_spans, response_spans


def feed_chunk(
    conversation: Conversation, direction: int, chunk: bytes, at_ns: int, arriving_kind: FrameKind
) -> tuple[Step, list[FrameSpan]]:
    """Feeds a chunk to the conversation. Returns its step, and the spans of the frames that the chunk touches.

    The proxy's own answers that are due with a chunk from the broker have spans too. `arriving_kind`: the kind of the
    frame that is arriving before the chunk, if there is one.
    """
    arriving = ArrivingFrame.between_steps(conversation, direction, arriving_kind)
    if direction:
        step = conversation.responses(chunk, at_ns)
        return step, response_spans(conversation, step, arriving)
    first = conversation.next_request_number
    step = conversation.requests(chunk, at_ns)
    return step, request_spans(conversation, step, arriving, first)
