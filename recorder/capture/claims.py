"""Finds the principal of a connection: a name that the client claims in its login and that the broker accepts.

Used by `connection_recorder`. Knows login tokens and their answers, never stream offsets. Each answer belongs to one of
the client's tokens: by its exchange in SaslAuthenticate, by order if the tokens are bare. So an answer never accepts a
name that the client claimed in a later token. Two kinds of logins give no principal: a login of which a part was not
recorded, and a login with more than MAX_UNANSWERED unanswered tokens.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from proxy.conversation.exchange import Direction
from proxy.wire import sasl
from proxy.wire.framing import LENGTH

# clients wait for the answer to each token; a client that doesn't wait must not fill the memory with names
MAX_UNANSWERED = 16
# bytes of a bare token that are gathered: more than a Kerberos ticket with all its groups takes
LONGEST_TOKEN = 64 * 1024


class Accepted(NamedTuple):
    """A principal that the broker has accepted, and the mechanism of the login."""

    name: str
    mechanism: str | None


class _Token(NamedTuple):
    """A client's token that the broker has not answered. `exchange`: its exchange's number; None for a bare token.

    `login`: the number of its login; `name`: the name that it claims, None if it claims none.
    """

    exchange: int | None
    login: int
    mechanism: str | None
    name: str | None


class Claims:
    """The names that the logins of one connection claim."""

    __slots__ = ("_claimed", "_claimed_in", "_is_lost", "_login", "_mechanism", "_parts", "_unanswered")

    def __init__(self) -> None:
        self._unanswered: deque[_Token] = deque()
        # the number of the login: a name claimed in an earlier login does not count in a later one
        self._login = 0
        self._mechanism: str | None = None
        self._is_lost = False
        # the newest name in the answered tokens, and the number of their login
        self._claimed: str | None = None
        self._claimed_in = 0
        # per direction: the bytes of the arriving bare token, its length field included
        self._parts = (bytearray(), bytearray())

    def begin_login(self, mechanism: str | None) -> None:
        """Begins a login, after a SaslHandshake that names this mechanism."""
        self._login += 1
        self._mechanism = mechanism
        self._is_lost = False

    def take_client_token(self, token: bytes, exchange: int | None = None) -> None:
        """Takes a token from the client. `exchange`: None for a bare token."""
        if self._is_lost or len(self._unanswered) == MAX_UNANSWERED:
            self.forget()
            return
        name = sasl.principal(self._mechanism, token)
        self._unanswered.append(_Token(exchange, self._login, self._mechanism, name))

    def take_answer(self, token: bytes | None, exchange: int | None = None) -> Accepted | None:
        """Takes the broker's answer: a token, or None for an error. Returns the principal if the answer accepts one."""
        answered = self._pop_answered(exchange)
        if answered is None or token is None:
            self._claimed = None
            return None
        if answered.login != self._claimed_in:
            self._claimed, self._claimed_in = None, answered.login
        self._claimed = answered.name or self._claimed
        if self._claimed is None or not sasl.is_accepted(answered.mechanism, token):
            return None
        accepted, self._claimed = self._claimed, None
        return Accepted(accepted, answered.mechanism)

    def take_bare_piece(self, direction: Direction, piece: bytes, *, is_last: bool) -> Accepted | None:
        """Takes a piece of a bare token; the first piece begins with the token's length field.

        Returns the principal if this is the last piece of an answer that accepts one.
        """
        part = self._parts[direction]
        part += piece
        if len(part) > LONGEST_TOKEN:
            self.forget()
        if not is_last:
            return None
        token = bytes(part[LENGTH.size :])
        part.clear()
        if direction is Direction.RESPONSE:
            return self.take_answer(token)
        self.take_client_token(token)
        return None

    def forget(self) -> None:
        """Forgets all claims, because a part of the login is not recorded. No claim counts until the next handshake."""
        self._unanswered.clear()
        for part in self._parts:
            part.clear()
        self._claimed = None
        self._is_lost = True

    def _pop_answered(self, exchange: int | None) -> _Token | None:
        """Removes and returns the oldest token of this exchange, or None. Earlier tokens are removed with it."""
        if all(token.exchange != exchange for token in self._unanswered):
            return None
        while (token := self._unanswered.popleft()).exchange != exchange:
            pass
        return token
