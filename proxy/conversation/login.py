"""Logins by bare tokens: frames without heads, after SaslHandshake v0 or in a GSSAPI login of a 0.9.0 client.

No field of a token tells whether the token is the last one; that depends on the mechanism. A frame that may be a token
counts as a token, because a token that is taken for a request would be recorded with its secret. The proxy decides.
Its recorder writes each decision as a `Verdict`, and the compactor follows the verdicts: it reads masked tokens, which
it could not judge.
Source: KIP-43, KIP-152, docs/proxy/frames.md.

    mechanism                 client sends     server sends      ends with
    PLAIN                     1 token          1 empty token     the server's token
    SCRAM-*                   2 tokens         2 tokens          the server's second token
    OAUTHBEARER               1 token          1 token           the server's empty token; one with bytes has an error,
                                                                 and the login goes on
    GSSAPI and any other      any number       any number        a client frame with the head of a known request
"""

from __future__ import annotations

from collections import deque
from typing import Any

from proxy.conversation.exchange import Direction
from proxy.conversation.step import Step, Verdict

# mechanism -> the number of tokens that the server sends in a login
SERVER_TOKENS = {"PLAIN": 1, "OAUTHBEARER": 1, "SCRAM-SHA-256": 2, "SCRAM-SHA-512": 2}


class Login:
    """Tells which frames of a connection are bare tokens.

    Attributes:
        decides: False in the compactor, which calls `follow`.
        pending: True while a login may be under way, so that unreadable bytes may be a secret. A SaslHandshake sets it;
            a request that is understood and belongs to no login clears it.
        mechanism: that of the newest login; None: unknown.
    """

    def __init__(self, *, decides: bool) -> None:
        self.decides = decides
        self.pending = True
        self.mechanism: str | None = None
        # per direction: True if its frames are tokens now; verdicts on later frames; the number of the login's tokens
        self._in_tokens = [False, False]
        self._verdicts: tuple[deque[Verdict], deque[Verdict]] = (deque(), deque())
        self._token_counts = [0, 0]

    def forget(self) -> None:
        """Forgets the login: frames have heads from here on, and unreadable bytes may be a secret."""
        self.pending, self.mechanism = True, None
        self._in_tokens, self._token_counts = [False, False], [0, 0]
        for verdicts in self._verdicts:
            verdicts.clear()

    def follow(self, verdict: Verdict) -> None:
        """Applies a verdict to its direction's frames, from its offset on."""
        self._verdicts[verdict.direction].append(verdict)
        self.mechanism = verdict.mechanism
        if verdict.token:
            self.pending = True

    def is_token(self, direction: Direction, offset: int) -> bool:
        """True if the frame at this stream offset is a bare token. A direction's offsets must not decrease."""
        verdicts = self._verdicts[direction]
        while verdicts and verdicts[0].offset <= offset:
            self._in_tokens[direction] = verdicts.popleft().token
        return self._in_tokens[direction]

    def begin(self, direction: Direction, offset: int, mechanism: str | None, step: Step) -> None:
        """Decides that a direction's frames are tokens from `offset` on. Does nothing unless `decides`."""
        if self.decides:
            self._token_counts[direction] = 0
            self._decide(Verdict(direction, offset, True, mechanism, ended=False), step)

    def count_token(self, direction: Direction, size: int, next_offsets: tuple[int, int], step: Step) -> None:
        """Counts a complete token; the last one ends the login. `next_offsets`: of each direction's next frame."""
        self._token_counts[direction] += 1
        if self.decides and direction is Direction.RESPONSE and self._is_last(size):
            self.end(next_offsets, step)

    def end(self, next_offsets: tuple[int, int], step: Step) -> None:
        """Decides that the login ends: both directions' frames have heads from these offsets on. Needs `decides`."""
        self._token_counts = [0, 0]
        for direction in Direction:
            self._decide(Verdict(direction, next_offsets[direction], False, self.mechanism, ended=True), step)

    @property
    def token_owed(self) -> bool:
        """True if the server must still answer a token. False for GSSAPI and others: the last may get no answer."""
        return (
            self.mechanism in SERVER_TOKENS
            and self._token_counts[Direction.REQUEST] > self._token_counts[Direction.RESPONSE]
        )

    @property
    def open_ended(self) -> bool:
        """True after a token of a mechanism without a fixed number of tokens: the next known request ends the login."""
        return self.mechanism not in SERVER_TOKENS and self._token_counts[Direction.REQUEST] > 0

    def _is_last(self, size: int) -> bool:
        total = SERVER_TOKENS.get(self.mechanism or "")
        if total is None or (self.mechanism == "OAUTHBEARER" and size):
            return False
        return self._token_counts[Direction.RESPONSE] >= total

    def _decide(self, verdict: Verdict, step: Step) -> None:
        self.follow(verdict)
        step.verdicts.append(verdict)

    def state(self) -> dict[str, Any]:
        """The state as JSON values, for `restore`."""
        return {
            "pending": self.pending,
            "mechanism": self.mechanism,
            "tokens": self._in_tokens,
            "counts": self._token_counts,
            "switches": [[list(verdict) for verdict in verdicts] for verdicts in self._verdicts],
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Continues from a result of `state`."""
        self.pending, self.mechanism = state["pending"], state["mechanism"]
        self._in_tokens, self._token_counts = list(state["tokens"]), list(state["counts"])
        for verdicts, saved in zip(self._verdicts, state["switches"], strict=True):
            verdicts.extend(Verdict(Direction(direction), *rest) for direction, *rest in saved)
