"""Chooses the exchanges of a capture to play: by API, time, client and connection."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import dataclass

from proxy.schema.addresses import meant
from recorder import moments
from recorder.replay.options import Options
from recorder.replay.plan import Exchange


@dataclass(frozen=True, slots=True)
class Choice:
    """The filters. All must hold; an empty one passes everything. Times in ns since 1970."""

    options: Options
    connections: frozenset[int] = frozenset()
    clients: tuple[str, ...] = ()  # a client id, or an address with or without its port
    since_ns: int | None = None
    until_ns: int | None = None

    @property
    def leaves_out(self) -> bool:
        """False if everything passes."""
        times = self.since_ns, self.until_ns
        return bool(self.options.only or self.connections or self.clients) or times != (None, None)

    @property
    def filter(self) -> Callable[[Exchange], bool] | None:
        """`plays`; None if everything passes, so that nobody asks for each exchange."""
        return self.plays if self.leaves_out else None

    def plays(self, exchange: Exchange) -> bool:
        """True for exchanges that are sent, or withheld with a reason."""
        return (
            self.options.chooses(exchange.api_key)
            and (not self.connections or exchange.origin.connection in self.connections)
            and (not self.clients or any(_is_of(exchange, name) for name in self.clients))
            and (self.since_ns is None or exchange.wall_ns >= self.since_ns)
            and (self.until_ns is None or exchange.wall_ns <= self.until_ns)
        )

    def words(self) -> tuple[str, ...]:
        """The filters that are given, as they would be typed; times as UTC."""
        return (
            *(f"--connection {number}" for number in sorted(self.connections)),
            *(f"--client {shlex.quote(name)}" for name in self.clients),
            *(() if self.since_ns is None else [f"--since {moments.written(self.since_ns)}"]),
            *(() if self.until_ns is None else [f"--until {moments.written(self.until_ns)}"]),
        )


def _is_of(exchange: Exchange, name: str) -> bool:
    """True for a client id, or an address with or without its port."""
    return name == exchange.peer.client_id or meant(name).matches(exchange.client)
