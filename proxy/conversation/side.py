"""The base class of a connection's two directions: knows the stream offset, and the frame that is arriving there."""

from __future__ import annotations

import base64
import sys
from abc import ABC, abstractmethod
from itertools import repeat
from typing import Any

from proxy.conversation.exchange import Cause, Direction, Exchange, FrameKind
from proxy.conversation.shared_state import SharedState
from proxy.conversation.step import Mark, Step
from proxy.wire.framing import LENGTH

# searching so many bytes for secrets may take as long as reading the head of a plain frame
SEARCHED_BYTES_PER_FRAME = 8


class Side(ABC):
    """One direction of a connection.

    Attributes:
        offset: the stream offset up to which all bytes are classified.
        held: the bytes after `offset`: a frame's beginning, held back until it is long enough to classify the frame.
            That is its head; for a Produce, all up to its acks. `held_at`: the time of their first byte.
        bytes_left: the number of bytes to come of the *open frame*, in which the last chunk ended; 0: no frame is open.
        open_exchange: the exchange of the open frame; None if it has none. `open_begin`: the frame's stream offset.
        without_exchange: the number of frames without an exchange so far: tokens, unreadable frames, late responses.
        frames_allowed: the *allowance*: how many *plain* frames (of which only the head is read) may still be read
            before a step is cut (`Step.cut_at`). Other frames count as several. Only a cut resets the allowance to
            `max_frames`, not the end of a step.
    """

    direction: Direction
    # how many plain frames a frame counts as that is not plain; a search for secrets is charged apart
    special_cost = 16

    __slots__ = (
        "_kind",
        "_limit",
        "_marked",
        "_open_may_hold_secret",
        "_up_to_max_frames",
        "bytes_left",
        "frames_allowed",
        "held",
        "held_at",
        "offset",
        "open_begin",
        "open_exchange",
        "shared",
        "without_exchange",
    )

    def __init__(self, shared: SharedState, limit: int) -> None:
        self.shared = shared
        self._limit = limit
        self.offset = 0
        self.held = b""
        self.held_at = 0
        self.frames_allowed = shared.max_frames
        # a sequence of `max_frames` items: a loop over it is cheaper than counting
        self._up_to_max_frames = repeat(None) if shared.max_frames == sys.maxsize else (None,) * shared.max_frames
        self.bytes_left = 0
        self.open_exchange: Exchange | None = None
        self.open_begin = 0
        self._kind = FrameKind.BYTES
        self._marked = False
        self._open_may_hold_secret = False
        self.without_exchange = 0

    def feed(self, chunk: bytes, at_ns: int) -> Step:
        """Takes a chunk that arrived at `at_ns`; returns its step."""
        data, first_ns = (self.held + chunk, self.held_at) if self.held else (chunk, at_ns)
        step = Step(data, self.offset, len(self.held))
        self.held = b""
        at = self._resume_frame(step, at_ns) if self.bytes_left else 0
        end = len(step.data)
        while end - at >= LENGTH.size and step.cause is None:
            before = at
            is_token = self.shared.login.is_token(self.direction, step.offset + at)
            at = (self._token if is_token else self._frames)(step, at, first_ns, at_ns)
            if at == before:
                break
            first_ns = at_ns
            if at < end:
                self._spend(step, at)
                end = len(step.data)
        self._end_step(step, at, first_ns if at < end else at_ns)
        return step

    def _spend(self, step: Step, at: int) -> None:
        """Charges for the frame at which `_frames` or `_token` ended. Cuts the step if the allowance is used up."""
        self.frames_allowed -= self.special_cost
        if self.frames_allowed <= 0 and at < len(step.data) and step.cause is None:
            step.cut_at(at)
            self.frames_allowed = self.shared.max_frames

    @abstractmethod
    def _is_searched(self, exchange: Exchange) -> bool:
        """True if the recorder searches the exchange's frame of this direction for secrets."""

    def _charge_search(self, step: Step, exchange: Exchange, at: int, stop: int) -> None:
        """Charges `frames_allowed` for the chunk's bytes of the frame at `data[at:stop]`, if the frame is searched.

        Leaves the bytes that the allowance can't pay for to later steps. Bytes that had been held back are free.
        """
        if not self._is_searched(exchange):
            return
        begin, affordable = max(at, step.chunk_at), max(self.frames_allowed, 1) * SEARCHED_BYTES_PER_FRAME
        here = min(stop, len(step.data)) - begin
        self.frames_allowed -= here // SEARCHED_BYTES_PER_FRAME
        if here > affordable:
            step.cut_at(begin + affordable)
            self.frames_allowed = self.shared.max_frames

    @abstractmethod
    def _resume_frame(self, step: Step, at_ns: int) -> int:
        """Continues the open frame. Returns the number of its bytes in the step."""

    @abstractmethod
    def _frames(self, step: Step, at: int, first_ns: int, at_ns: int) -> int:
        """Reads frames from `data[at]` on. Returns the offset of the first frame that it has not read."""

    @abstractmethod
    def _token(self, step: Step, at: int, first_ns: int, at_ns: int) -> int:
        """Reads the bare login token at `data[at]`. Returns the next frame's offset; `at` if more bytes are needed."""

    @property
    def arrived(self) -> int:
        """The stream offset after the last byte that has arrived."""
        return self.offset + len(self.held)

    @property
    def next_offset(self) -> int:
        """The stream offset of the next frame."""
        return self.offset + self.bytes_left

    @property
    def missing(self) -> int:
        """The number of bytes to come of the arriving frame; 0 between frames.

        While the frame's length field is incomplete, the number of bytes to come of that field.
        """
        if self.bytes_left or not self.held:
            return self.bytes_left
        length = LENGTH.unpack_from(self.held)[0] if len(self.held) >= LENGTH.size else 0
        return LENGTH.size + int(length) - len(self.held)

    def skip(self, count: int) -> None:
        """Skips `count` bytes of the open frame, but never its last byte, with which `feed` ends the frame."""
        if count >= self.bytes_left:
            raise ValueError(f"can't skip {count} bytes of a frame of which {self.bytes_left} are to come")
        self.offset += count
        self.bytes_left -= count

    def pass_over(self, count: int) -> Exchange | None:
        """Passes over `count` bytes of the open frame that nobody has seen; its last byte ends it.

        Returns the exchange whose frame has ended. Needs an open frame that has so many bytes to come.
        """
        if count < self.bytes_left:
            self.skip(count)
            return None
        ended = self.open_exchange
        self.resume(self.next_offset)
        return ended

    def resume(self, offset: int) -> None:
        """Goes on at this stream offset, where a frame begins; forgets the open frame, and bytes that are held back."""
        self.offset, self.held, self.bytes_left, self.open_exchange = offset, b"", 0, None
        self.shared.next_offsets[self.direction] = offset

    def _mark(self, step: Step, kind: FrameKind, exchange: Exchange | None, at: int, stop: int) -> None:
        """Marks the frame at `data[at:stop]`, of which the step may hold only the beginning."""
        begin, end = step.offset + at, step.offset + stop
        piece_stop = step.offset + min(stop, len(step.data))
        # holds for the frame's later pieces, too, even if the login ends before they come
        self._open_may_hold_secret = self._may_hold_secret(kind)
        step.marks.append(Mark(kind, exchange, begin, end, begin, piece_stop, self._open_may_hold_secret))

    def _must_mark_opaque(self, exchange: Exchange) -> bool:
        """True if the frames of this opaque exchange may hold a secret, or may be no Kafka frames."""
        return self.shared.login.pending or exchange.is_unidentified

    def _may_hold_secret(self, kind: FrameKind) -> bool:
        """True if an opaque frame of this kind may be a secret now, because a login may be under way."""
        return self.shared.login.pending

    def _leave_open(
        self, step: Step, at: int, stop: int, kind: FrameKind, exchange: Exchange | None, marked: bool
    ) -> None:
        if stop > len(step.data):
            self.open_exchange, self._kind, self._marked = exchange, kind, marked
            self.open_begin = step.offset + at

    def _take_piece(self, step: Step) -> int:
        """Takes the open frame's bytes in this step, and marks them if the frame is marked. Returns their number."""
        if self._marked and self.open_exchange is not None:
            self._charge_search(step, self.open_exchange, 0, self.bytes_left)
        here = min(self.bytes_left, len(step.data))
        if self._marked:
            end = step.offset + self.bytes_left
            piece = step.offset, step.offset + here, self._open_may_hold_secret
            step.marks.append(Mark(self._kind, self.open_exchange, self.open_begin, end, *piece))
        self.bytes_left -= here
        return here

    def _end_step(self, step: Step, at: int, at_ns: int) -> None:
        """Sets the state at the end of a step: within a frame, with bytes held back, or between two frames."""
        end = len(step.data)
        if at > end:
            self.bytes_left = at - end
            at = end
        elif at < end and step.cause is None:
            self.held = step.data[at:]
            self.held_at = at_ns
        step.stop = at
        self.offset = step.offset + at
        self.shared.next_offsets[self.direction] = self.offset + self.bytes_left

    def _length(self, step: Step, at: int, shortest: int = 0) -> int:
        """The frame length at `data[at]`; -1 if no frame may have it, which ends the connection."""
        (size,) = LENGTH.unpack_from(step.data, at)
        if shortest <= size <= self._limit:
            return int(size)
        step.cause = Cause.BAD_LENGTH
        return -1

    def _take_token(self, step: Step, at: int, size: int) -> int:
        """Counts and marks a bare login token. Returns the next frame's offset."""
        stop = self._take_without_exchange(step, at, size, FrameKind.TOKEN)
        if stop <= len(step.data):
            self.shared.token_complete(self.direction, size, step.offset + stop, step)
        return stop

    def _take_without_exchange(self, step: Step, at: int, size: int, kind: FrameKind) -> int:
        """Counts and marks a frame without an exchange. Returns the next frame's offset."""
        stop = at + 4 + size
        self.without_exchange += 1
        self._mark(step, kind, None, at, stop)
        self._leave_open(step, at, stop, kind, None, marked=True)
        return stop

    def _end_without_exchange(self, step: Step, at: int) -> None:
        """Notes that the open frame, which has no exchange, ended at `data[at]`. A token may end the login."""
        if self._kind is FrameKind.TOKEN:
            self.shared.token_complete(self.direction, step.offset + at - self.open_begin - 4, step.offset + at, step)

    def state(self) -> dict[str, Any]:
        """The state as JSON values, for `restore`; without the open exchange."""
        return {
            "offset": self.offset,
            "held": base64.b64encode(self.held).decode(),
            "held_at": self.held_at,
            "bytes_left": self.bytes_left,
            "open_begin": self.open_begin,
            "kind": self._kind.value,
            "marked": self._marked,
            "without_exchange": self.without_exchange,
        }

    def restore(self, state: dict[str, Any], open_exchange: Exchange | None) -> None:
        """Continues from a result of `state`. `open_exchange`: the exchange of the open frame, if it has one."""
        self.offset, self.held, self.held_at = state["offset"], base64.b64decode(state["held"]), state["held_at"]
        self.bytes_left, self.open_begin, self._kind = (
            state["bytes_left"],
            state["open_begin"],
            FrameKind(state["kind"]),
        )
        self._marked, self.without_exchange = state["marked"], state["without_exchange"]
        # has no effect: only the compactor restores states, and the compactor masks nothing
        self._open_may_hold_secret = self._may_hold_secret(self._kind)
        self.open_exchange = open_exchange
        self.shared.next_offsets[self.direction] = self.next_offset
