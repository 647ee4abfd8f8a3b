"""Whose connection it is: a name that a client claims in its login, and that counts once the broker has accepted it.

Knows tokens and their answers, never the places where they stand. Each answer belongs to one of the client's tokens: by
its exchange within SaslAuthenticate, by its turn where the tokens are bare. So a name that is claimed behind a login
that is still to be answered is not taken for the one that the answer accepts. What can't be told is nobody's: a login
in which part of the record is missing, and one whose tokens come faster than any broker answers them.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from proxy.conversation.exchange import Direction
from proxy.wire import sasl
from proxy.wire.framing import LENGTH

# clients wait for the answer to each token; one that does not must not fill the memory with names
MOST_UNANSWERED = 16
# bytes of a bare token that are gathered: more than a Kerberos ticket with all its groups takes
LONGEST_TOKEN = 64 * 1024


class Accepted(NamedTuple):
    """Who has logged in, and how."""

    name: str
    mechanism: str | None


class _Token(NamedTuple):
    """A client's token that the broker has not answered. `exchange`: None for a bare one."""

    exchange: int | None
    login: int
    mechanism: str | None
    name: str | None


class Claims:
    """What the logins of one connection claim."""

    __slots__ = ("_claimed", "_claimed_in", "_is_lost", "_login", "_mechanism", "_parts", "_unanswered")

    def __init__(self) -> None:
        self._unanswered: deque[_Token] = deque()
        # logins are numbered: a name of an earlier one does not count in a later one
        self._login = 0
        self._mechanism: str | None = None
        self._is_lost = False
        # the name in the tokens that have been answered, and the login that they belong to
        self._claimed: str | None = None
        self._claimed_in = 0
        # per direction: what has come of a bare token, its length included
        self._parts = (bytearray(), bytearray())

    def begin(self, mechanism: str | None) -> None:
        """A handshake: the tokens that follow are a new login's."""
        self._login += 1
        self._mechanism = mechanism
        self._is_lost = False

    def asked(self, token: bytes, exchange: int | None = None) -> None:
        """The client has sent a token."""
        if self._is_lost or len(self._unanswered) == MOST_UNANSWERED:
            self.forget()
            return
        name = sasl.principal(self._mechanism, token)
        self._unanswered.append(_Token(exchange, self._login, self._mechanism, name))

    def answered(self, token: bytes | None, exchange: int | None = None) -> Accepted | None:
        """The broker has answered a token, with one of its own or with an error (None). Whom this accepts."""
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
        """A piece of a token without a head, the first with the token's length before it. Whom its end accepts."""
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
        """Part of the record is missing: nothing that is claimed counts until the next handshake."""
        self._unanswered.clear()
        for part in self._parts:
            part.clear()
        self._claimed = None
        self._is_lost = True

    def _take(self, exchange: int | None) -> _Token | None:
        """The token that is answered; those before it never will be."""
        if all(token.exchange != exchange for token in self._unanswered):
            return None
        while (token := self._unanswered.popleft()).exchange != exchange:
            pass
        return token
