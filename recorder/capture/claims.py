"""The principal of a connection: a name that the client claims in its login and that the broker accepts.

Knows tokens and their answers, never stream offsets. Each answer belongs to one of the client's tokens: by its exchange
within SaslAuthenticate, by order where the tokens are bare. So an answer never accepts a name that the client claimed
in a later token. Two kinds of logins give no principal: one with a part of its record missing, and one whose tokens
come faster than any broker answers them.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from proxy.conversation.exchange import Direction
from proxy.wire import sasl
from proxy.wire.framing import LENGTH

# clients wait for the answer to each token; a client that doesn't must not fill the memory with names
MAX_UNANSWERED = 16
# bytes of a bare token that are gathered: more than a Kerberos ticket with all its groups takes
LONGEST_TOKEN = 64 * 1024


class Accepted(NamedTuple):
    """A principal that the broker has accepted, and the mechanism of the login."""

    name: str
    mechanism: str | None


class _Token(NamedTuple):
    """A client's token that the broker has not answered. `exchange`: None for a bare one."""

    exchange: int | None
    login: int
    mechanism: str | None
    name: str | None


class Claims:
    """The logins of one connection."""

    __slots__ = ("_claimed", "_claimed_in", "_is_lost", "_login", "_mechanism", "_parts", "_unanswered")

    def __init__(self) -> None:
        self._unanswered: deque[_Token] = deque()
        # logins are numbered: a name claimed in an earlier login does not count in a later one
        self._login = 0
        self._mechanism: str | None = None
        self._is_lost = False
        # the name in the tokens that have been answered, and the login that they belong to
        self._claimed: str | None = None
        self._claimed_in = 0
        # per direction: the bytes of a bare token that have come, its length included
        self._parts = (bytearray(), bytearray())

    def begin(self, mechanism: str | None) -> None:
        """Begins a login, after a handshake."""
        self._login += 1
        self._mechanism = mechanism
        self._is_lost = False

    def asked(self, token: bytes, exchange: int | None = None) -> None:
        """Takes a token from the client."""
        if self._is_lost or len(self._unanswered) == MAX_UNANSWERED:
            self.forget()
            return
        name = sasl.principal(self._mechanism, token)
        self._unanswered.append(_Token(exchange, self._login, self._mechanism, name))

    def answered(self, token: bytes | None, exchange: int | None = None) -> Accepted | None:
        """Takes the broker's answer, a token or an error (None). Returns the principal that it accepts."""
        asked = self._take(exchange)
        if asked is None or token is None:
            self._claimed = None
            return None
        if asked.login != self._claimed_in:
            self._claimed, self._claimed_in = None, asked.login
        self._claimed = asked.name or self._claimed
        if self._claimed is None or not sasl.is_accepted(asked.mechanism, token):
            return None
        accepted, self._claimed = self._claimed, None
        return Accepted(accepted, asked.mechanism)

    def bare(self, direction: Direction, piece: bytes, *, is_last: bool) -> Accepted | None:
        """Takes a piece of a bare token, whose first piece begins with its length. Returns the principal it accepts."""
        part = self._parts[direction]
        part += piece
        if len(part) > LONGEST_TOKEN:
            self.forget()
        if not is_last:
            return None
        token = bytes(part[LENGTH.size :])
        part.clear()
        if direction is Direction.RESPONSE:
            return self.answered(token)
        self.asked(token)
        return None

    def forget(self) -> None:
        """Notes that a part of the record is missing: no claim counts until the next handshake."""
        self._unanswered.clear()
        for part in self._parts:
            part.clear()
        self._claimed = None
        self._is_lost = True

    def _take(self, exchange: int | None) -> _Token | None:
        """Removes and returns the answered token; earlier tokens will never be answered and are removed too."""
        if all(token.exchange != exchange for token in self._unanswered):
            return None
        while (token := self._unanswered.popleft()).exchange != exchange:
            pass
        return token
