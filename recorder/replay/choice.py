"""Chooses the exchanges of a capture to play: by `--only`, and by a filter in the language of `inspect`.

What a request's head tells is decided as the request comes. A filter that asks for more (its partitions, its answer) is
applied to the whole capture before the replay: then `chosen` has what passes, by the same code as `inspect exchanges`.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from proxy.wire.apis import api_name
from proxy.wire.dialects import Dialect
from recorder.capture import frames as c
from recorder.capture.remote import Place
from recorder.query.evaluation import Predicate, Subject, predicate
from recorder.query.shorthand import Filter
from recorder.query.syntax import EVERYTHING
from recorder.replay.options import Options
from recorder.replay.plan import Exchange, Origin, Reason


@dataclass(frozen=True)
class Choice:
    """What is played.

    `wanted`: its times are ns since 1970. `chosen`: the exchanges that pass it; None: the head of each one tells.
    """

    options: Options
    wanted: Filter = field(default=Filter(EVERYTHING))
    chosen: Container[Origin] | None = None

    @property
    def leaves_out(self) -> bool:
        """False if everything passes."""
        return bool(self.options.only) or self.wanted.node != EVERYTHING

    @property
    def filter(self) -> Callable[[Exchange], bool] | None:
        """`plays`; None if everything passes, so that nobody asks for each exchange."""
        return self.plays if self.leaves_out else None

    def plays(self, exchange: Exchange) -> bool:
        """True for exchanges that are sent, or withheld with a reason."""
        if not self.options.chooses(exchange.api_key):
            return False
        if self.chosen is not None:
            return exchange.origin in self.chosen
        return self._passes(Subject(_head(exchange))) is True

    @cached_property
    def _passes(self) -> Predicate:
        return predicate(self.wanted.node)

    def words(self) -> tuple[str, ...]:
        """The filters that are given, as they would be typed; times as UTC."""
        return self.wanted.words


def _head(exchange: Exchange) -> dict[str, Any]:
    """What a filter may ask of an exchange before its answer is known."""
    session, connection, number = exchange.origin
    return {
        "api": api_name(exchange.api_key),
        "api_key": exchange.api_key,
        "dialect": (Dialect.KAFKA_07 if exchange.fault is Reason.OLD_DIALECT else Dialect.KAFKA).value,
        "version": exchange.version,
        "client": (exchange.peer.client_id, exchange.client),
        "client_id": exchange.peer.client_id,
        "principal": exchange.principal,
        "session": session,
        "connection": connection,
        "exchange": number,
        "node": exchange.node,
        "at": exchange.wall_ns,
    }


# the fields of `_head`
_OF_HEADS = frozenset({"api", "dialect", "version", "client", "client_id", "principal", c.SESSION, c.CONNECTION})
_OF_HEADS |= {c.EXCHANGE, c.NODE, "at"}


def choose(folder: Place, options: Options, wanted: Filter, say: Callable[[str], None]) -> Choice:
    """The choice of a filter over a capture. `say`: prints a note. Errors: those of `Capture.exchanges`."""
    if wanted.names <= _OF_HEADS:
        return Choice(options, wanted)
    from recorder.reading.capture import Capture

    passed = Capture(folder, []).exchanges(wanted, brief=True)
    chosen = frozenset(Origin(*(pair.head[name] for name in (c.SESSION, c.CONNECTION, c.EXCHANGE))) for pair in passed)
    if unread := passed.unsure.unread.total():
        say(f"note: of {unread} exchanges nobody can tell whether they pass --where: they are left out")
    return Choice(options, wanted, chosen)
