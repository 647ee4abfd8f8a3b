"""One Kafka connection of a dump, as the recorder's tap hears of it: the proxy's conversation, and gaps.

Bytes that the dump lacks begin a gap of the cause `not_captured`. Where they lie within a frame whose end is known, the
next frame goes on. Otherwise frames are found again (`pickup`), as in a connection that is older than the dump, whose
gap has the cause `before_dump`; and where a response answers nothing, which happens if bytes were lost unnoticed.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum

from proxy.conversation import Cause, Conversation, Direction, Exchange
from proxy.observer import OpenedConnection
from proxy.wire.dialects import Dialect
from recorder.capture.frames import GAP_BEFORE_DUMP, GAP_NOT_CAPTURED
from recorder.capture.tap import Tap
from recorder.pcap.pickup import Pickup
from recorder.pcap.pool import Pool
from recorder.pcap.tcp import Piece


class KafkaConnection:
    """One connection.

    Args:
        wait: blocks until the tap has room.
        is_older: True if the connection began before the dump.
    """

    def __init__(
        self,
        tap: Tap,
        opened: OpenedConnection,
        conversation: Conversation,
        pool: Pool,
        wait: Callable[[], None],
        *,
        is_older: bool,
    ) -> None:
        self._tap, self._number, self._conversation, self._pool, self._wait = (
            tap,
            opened.connection,
            conversation,
            pool,
            wait,
        )
        self._pickup: Pickup | None = None
        # the client's end came first, the broker's, or none yet
        self.first_end: Direction | None = None
        tap.opened(opened, conversation)
        if is_older and conversation.dialect is Dialect.KAFKA:
            self._pick_up(GAP_BEFORE_DUMP, Direction.REQUEST, {*Direction}, opened.at_ns)

    def take(self, piece: Piece) -> None:
        """Takes what comes next in one of its directions."""
        self._wait()
        direction = piece.direction
        if not piece.data and not piece.lost:
            self.first_end = direction if self.first_end is None else self.first_end
            self._tap.half_closed(self._number, direction, piece.at_ns)
        elif self._pickup is not None:
            self._pickup.take(piece)
            self._go_on_if_found(self._pickup, piece.at_ns)
        elif piece.lost:
            self._lose(piece)
        else:
            self._arrived(direction, piece.data, piece.at_ns)

    def close(self, cause: StrEnum, at_ns: int) -> None:
        """The connection has ended. Nothing is called afterwards."""
        if self._pickup is not None:
            self._go_on_if_found(self._pickup, at_ns, is_over=True)
        if self._pickup is not None:
            ends = self._pickup.ends
            self._pickup.forget()
            self._lose_uncounted(Direction.RESPONSE, GAP_NOT_CAPTURED, at_ns, self._conversation.resume(ends, None))
        self._tap.closed(self._number, cause, at_ns)

    def _arrived(self, direction: Direction, data: bytes, at_ns: int) -> None:
        conversation = self._conversation
        step = conversation.responses(data, at_ns) if direction else conversation.requests(data, at_ns)
        self._tap.arrived(self._number, direction, data, at_ns, step)
        if step.cause is not None:
            self._pick_up(step.cause.value, direction, {direction}, at_ns)
            assert self._pickup is not None
            self._pickup.take(Piece(direction, at_ns, step.data[step.stop :]))

    def _lose(self, piece: Piece) -> None:
        ended = self._conversation.lose(piece.direction, piece.lost)
        if ended is None:
            self._pick_up(GAP_NOT_CAPTURED, piece.direction, {piece.direction}, piece.at_ns)
            assert self._pickup is not None
            self._pickup.take(piece)
            return
        finished, one_way = ([], ended) if piece.direction is Direction.REQUEST else (ended, [])
        self._tap.lost(self._number, piece.direction, GAP_NOT_CAPTURED, piece.at_ns, finished=finished, one_way=one_way)

    def _pick_up(self, reason: str, lost: Direction, searched: set[Direction], at_ns: int) -> None:
        """Begins to look for frames in these directions. What a searched direction has held back is lost."""
        self._lose_uncounted(lost, reason, at_ns, [])
        self._pickup = Pickup(self._conversation, searched, self._pool)

    def _lose_uncounted(self, direction: Direction, reason: str, at_ns: int, given_up: list[Exchange]) -> None:
        self._tap.lost(self._number, direction, reason, at_ns, finished=given_up, is_counted=False)

    def _go_on_if_found(self, pickup: Pickup, at_ns: int, *, is_over: bool = False) -> None:
        found = None if self._conversation.dialect is not Dialect.KAFKA else pickup.resumed(is_over=is_over)
        if found is None:
            return
        self._pickup = None
        given_up = self._conversation.resume(found.offsets, found.awaited)
        begins_ns = found.pieces[0].at_ns if found.pieces else at_ns
        self._lose_uncounted(Direction.RESPONSE, GAP_NOT_CAPTURED, begins_ns, given_up)
        self._tap.resumed(self._number, begins_ns)
        for piece in found.pieces:
            self.take(piece)


class Ending(StrEnum):
    """Why a connection's record ends that no peer has closed."""

    DUMP_ENDED = "dump_ended"
    PORTS_REUSED = "ports_reused"
    TOO_MANY = "too_many_connections"


def cause_of(first_end: Direction | None, *, is_reset: bool) -> Cause:
    """The cause by which a connection ended. `first_end`: whose end, or whose reset, came first."""
    if first_end is Direction.RESPONSE:
        return Cause.BROKER_RESET if is_reset else Cause.BROKER_CLOSED
    return Cause.CLIENT_RESET if is_reset else Cause.CLIENT_CLOSED
