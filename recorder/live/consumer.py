"""What the live stream feeds: the interface of those who look at exchanges as they end."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple, Protocol

from recorder.reading.exchanges import Pair

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIApplication
    from prometheus_client.metrics_core import Metric as Family


class Missed(NamedTuple):
    """Frames that the stream could not show. `frames`: how many; None: nobody knows. `why`: a sentence."""

    frames: int | None
    why: str


class Consumer(Protocol):
    """Gets the exchanges of the stream. All calls come from the stream's thread, and must not block.

    What the stream cannot read fast enough is told by `missed`, and so are the gaps of the log.
    """

    @property
    def is_asked(self) -> bool:
        """True while exchanges are wanted: they are made of frames only if a consumer wants them."""

    def take(self, pair: Pair) -> None:
        """Takes an exchange, in the order in which exchanges end.

        Its rows have their bytes, unless these are more than `recorder.reading.exchanges.LARGEST_KEPT`.
        """

    def missed(self, missed: Missed) -> None:
        """Learns that something is missing before the next exchange."""

    def is_behind(self, seconds: float) -> None:
        """Learns how far the stream is behind while it makes no exchanges for that reason; 0: it makes them again."""

    def close(self) -> None:
        """The last call: the proxy has gone, and all that it said was taken."""


class Part(NamedTuple):
    """What an option of the process adds.

    Attributes:
        consumers: who gets the exchanges.
        pages: what answers requests over the socket, by the first name of their path ("top" for `/live/top/...`).
            Called in the server's threads, with the rest of the path as PATH_INFO.
        families: makes the metrics of its own. Called in any thread.
    """

    consumers: Sequence[Consumer] = ()
    pages: Mapping[str, WSGIApplication] = MappingProxyType({})
    families: Callable[[], Iterable[Family]] = tuple
