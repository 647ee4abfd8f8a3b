"""Who watches the bytes go by: the recorder, seen from the proxy.

The proxy knows these few methods and nothing of what stands behind them. None of them may block or raise for what
happens on a disk; `counters` and `close` alone block, and are called in threads.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from proxy.conversation import Cause, Conversation, Direction, Step


@dataclass(frozen=True, slots=True)
class Opened:
    """A client's connection with the broker's connection opened for it. Times are `time.monotonic_ns()`.

    `tls`: whether the client speaks it. `principal`: the subject of the certificate that it has shown.
    """

    connection: int
    at_ns: int
    listener: str
    client: str
    node: int | None
    upstream: str
    tls: bool
    cluster: str
    principal: str | None = None


class Observer(Protocol):
    """Is told of every byte before it is sent on."""

    @property
    def full(self) -> bool:
        """Whether a socket should wait until there is room (`when_room`)."""

    def opened(self, facts: Opened, talk: Conversation) -> None:
        """A client's connection has a broker's. `talk` is what will frame it; it is only to be read."""

    def arrived(self, connection: int, direction: Direction, chunk: bytes, at_ns: int, step: Step) -> None:
        """`chunk` was read from a socket; `step` is what the conversation made of it."""

    def made(self, connection: int, correlation_id: int, frame: bytes, at_ns: int) -> None:
        """The proxy answers a request itself; the frame has its length in front."""

    def half_closed(self, connection: int, direction: Direction, at_ns: int) -> None:
        """The end of stream was read in this direction."""

    def closed(self, connection: int, cause: Cause, at_ns: int) -> None:
        """The last call for a connection."""

    def node(self, node_id: int, upstream: str, listener: str, cluster: str) -> None:
        """A node was found, or has moved."""

    def choice(self, recording: Any) -> tuple[Callable[[], None], Callable[[], None]]:
        """Settings of the recorder's that were read again: what has those change that can, and what undoes that."""

    def when_room(self, call: Callable[[], None]) -> None:
        """Has `call` called once, in any thread, as soon as there may be room again or nothing will be recorded."""

    def counters(self) -> Mapping[str, float]:
        """Numbers for the metrics, by name; called in any thread."""

    def child_ended(self) -> None:
        """The process that runs beside the proxy for it has ended, and is started again."""

    @property
    def unwritten(self) -> int:
        """Bytes of traffic that it has taken and that are not on the disk yet."""

    def close(self) -> None:
        """Writes what is left. Blocks, as long as the disk does; so it is called in a thread that may be abandoned."""
