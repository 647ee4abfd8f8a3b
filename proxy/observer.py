"""The recorder as those see it who report to it: each chunk of clients and brokers, and what is known of both.

The proxy knows only these methods of the recorder; a replay that is recorded reports in the same words. No method
raises because of a disk. A fault of the recorder ends no connection either: what reports traffic or nodes never raises.
Only `counters` and `close` block, so the proxy calls them in threads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from proxy.conversation import Cause, Conversation, Direction, Step


@dataclass(frozen=True, slots=True)
class OpenedConnection:
    """A client's connection with the broker's connection opened for it. Times are `time.monotonic_ns()`.

    Of a replay, the client is the replay itself, and the listener the broker that it has dialled.

    `connection`: its number. `node`: the node that the client wants; None: bootstrap. `tls`: True if the client speaks
    TLS. `principal`: the subject of the client's certificate. `upstream`: None if no broker was dialled, because the
    client has sent nothing (a probe).
    """

    connection: int
    at_ns: int
    listener: str
    client: str
    node: int | None
    upstream: str | None
    tls: bool
    cluster: str
    principal: str | None = None


class Observer(Protocol):
    """Gets every chunk of a connection before the proxy sends it on.

    Not reported: a discovery query of the proxy's own that arrives at one of its listeners (`brokers.discovery`).
    """

    @property
    def session(self) -> str:
        """The name of this recording in its capture."""

    @property
    def must_wait(self) -> bool:
        """True if sockets should wait until the observer takes more (`when_not_full`)."""

    def opened(self, facts: OpenedConnection, conversation: Conversation) -> None:
        """The first call for a connection: a broker's connection was opened for it, or it was a probe.

        `conversation` is only read.
        """

    def arrived(self, connection: int, direction: Direction, chunk: bytes, at_ns: int, step: Step) -> None:
        """`chunk` was read from a socket; `step` is the conversation's result for it."""

    def answered(self, connection: int, correlation_id: int, frame: bytes, at_ns: int) -> None:
        """The proxy itself answers a request. `frame`: the response, with its length."""

    def half_closed(self, connection: int, direction: Direction, at_ns: int) -> None:
        """The end of stream was read in this direction."""

    def closed(self, connection: int, cause: Cause, at_ns: int, decision: Mapping[str, str | int]) -> None:
        """The last call for a connection. `decision`: what the proxy saw, if it has ended the connection itself."""

    def node(self, node_id: int, upstream: str, listener: str, cluster: str) -> None:
        """A node has a listener from now on, or its broker's address (`upstream`) has changed."""

    def identified(
        self, cluster: str, *, ids: Iterable[str] = (), upstreams: Iterable[str] = (), listeners: Iterable[str] = ()
    ) -> None:
        """More by which a cluster can be known again, whatever is recorded of it.

        Its id, or "" for brokers that did not tell theirs; the addresses of its brokers and of the proxy's listeners,
        as named and as resolved.
        """

    def selection_change(self, recording: Any) -> tuple[Callable[[], None], Callable[[], None]]:
        """Returns two functions, (apply, undo).

        `apply` selects traffic as `recording`, the recorder's reloaded settings, says; `undo` restores the present
        selection. The recorder's other settings stay as they are.
        """

    def when_not_full(self, call: Callable[[], None]) -> None:
        """Calls `call` once, in any thread, when `must_wait` may be False again or the recorder has ended."""

    def counters(self) -> Mapping[str, float]:
        """Numbers for the metrics, by name; called in any thread."""

    @property
    def child_input(self) -> bytes:
        """What each child process is given on its standard input; it may be secret."""

    def child_ended(self) -> None:
        """The observer's child process (the compactor) has ended; the proxy starts it again."""

    @property
    def unwritten(self) -> int:
        """Bytes of traffic that the observer has taken and that are not on the disk yet."""

    @property
    def losses(self) -> Mapping[str, Any]:
        """What was not recorded of the traffic that should be, as keys for the log; empty: nothing is lost."""

    def close(self) -> None:
        """Writes what is queued. Blocks as long as the disk does, so it is called in a thread that may be abandoned."""
