"""Feeds conversations with the chunks of a schedule, and collects the results."""

from __future__ import annotations

from proxy.conversation import Conversation, Step
from tests.proxy.conversation.script import Chunk


class Run:
    """The collected results of feeding chunks to a conversation."""

    def __init__(self, talk: Conversation) -> None:
        self.talk = talk
        self.steps: list[tuple[bool, Step]] = []

    def feed(self, chunks: list[Chunk]) -> Run:
        for chunk in chunks:
            feed = self.talk.requests if chunk.from_client else self.talk.responses
            self.steps.append((chunk.from_client, feed(chunk.data, chunk.at_ns)))
        return self

    def sent(self, from_client: bool) -> bytes:
        return b"".join(bytes(piece) for side, step in self.steps for piece in step.outgoing() if side is from_client)

    def finished(self) -> list[tuple[int | None, ...]]:
        return [
            (e.number, e.api_key, e.api_version, e.correlation_id, e.request_size, e.response_size)
            for _, step in self.steps
            for e in step.finished
        ]

    def one_way(self) -> list[int]:
        return [exchange.number for _, step in self.steps for exchange in step.one_way]

    def frames(self, from_client: bool) -> list[bytes]:
        """Returns marked frames, joined from their pieces."""
        frames: list[bytes] = []
        for side, step in self.steps:
            for mark in step.marks if side is from_client else ():
                piece = step.data[mark.start - step.offset : mark.stop - step.offset]
                if mark.first:
                    frames.append(b"")
                frames[-1] += piece
        return frames


def rest_of(offsets: tuple[int, int], chunks: list[Chunk]) -> list[Chunk]:
    """Returns the chunks without the bytes before the offsets."""
    left = {True: offsets[0], False: offsets[1]}
    rest = []
    for chunk in chunks:
        skipped = min(left[chunk.from_client], len(chunk.data))
        left[chunk.from_client] -= skipped
        if skipped < len(chunk.data):
            rest.append(Chunk(chunk.from_client, chunk.data[skipped:], chunk.at_ns))
    return rest
