"""Logins whose tokens have no heads: SaslHandshake v0, and the raw GSSAPI packets of the oldest clients.

The wire does not show the end of such a login; the mechanism determines it. In doubt a frame is a token, because a
token taken for a frame would be recorded with its secret. Every decision is a `Verdict`. Readers of a recording follow
the verdicts, because the tokens are masked there. Source: KIP-43, KIP-152, docs/proxy.md "Pairing".

    state                     client sends     server sends      ends with
    PLAIN                     1 token          1 empty token     the server's token
    SCRAM-*                   2 tokens         2 tokens          the server's second token
    OAUTHBEARER               1 token          1 token           the server's token, if it is empty
    GSSAPI and any other      some             some              a client frame that can only be a known request
"""

from __future__ import annotations

from collections import deque
from typing import Any

from proxy.conversation.exchange import Direction
from proxy.conversation.step import Step, Verdict

# the server's tokens after which a login is over
SERVER_TOKENS = {"PLAIN": 1, "OAUTHBEARER": 1, "SCRAM-SHA-256": 2, "SCRAM-SHA-512": 2}


class Login:
    """The stretches of each direction that are bare tokens."""

    def __init__(self, *, decides: bool) -> None:
        self.decides = decides
        # unreadable bytes may be a secret until a request that is no part of a login is understood
        self.pending = True
        self.mechanism: str | None = None
        self._tokens = [False, False]
        self._switches: tuple[deque[Verdict], deque[Verdict]] = (deque(), deque())
        self._counts = [0, 0]

    def follow(self, verdict: Verdict) -> None:
        """Applies the verdict to its direction's frames from its offset on."""
        self._switches[verdict.direction].append(verdict)
        self.mechanism = verdict.mechanism
        if verdict.token:
            self.pending = True

    def is_token(self, direction: Direction, offset: int) -> bool:
        """True if the frame at this stream offset is a bare token. Offsets of a direction never go back."""
        switches = self._switches[direction]
        while switches and switches[0].offset <= offset:
            self._tokens[direction] = switches.popleft().token
        return self._tokens[direction]

    def begin(self, direction: Direction, offset: int, mechanism: str | None, step: Step) -> None:
        """Tokens start at `offset`."""
        if self.decides:
            self._counts[direction] = 0
            self._decide(Verdict(direction, offset, True, mechanism, False), step)

    def token(self, direction: Direction, size: int, next_offsets: tuple[int, int], step: Step) -> None:
        """A token is complete. `next_offsets`: the stream offset of each direction's next frame."""
        self._counts[direction] += 1
        if self.decides and direction is Direction.RESPONSE and self._is_last(size):
            self.end(next_offsets, step)

    def end(self, next_offsets: tuple[int, int], step: Step) -> None:
        """Ends the login: frames have heads again from these stream offsets on, one for each direction."""
        self._counts = [0, 0]
        for direction in Direction:
            self._decide(Verdict(direction, next_offsets[direction], False, self.mechanism, True), step)

    @property
    def owed(self) -> bool:
        """True if the server owes a token. Always False for GSSAPI and others, whose last token may have no answer."""
        return self.mechanism in SERVER_TOKENS and self._counts[Direction.REQUEST] > self._counts[Direction.RESPONSE]

    @property
    def open_ended(self) -> bool:
        """True if only the client's next request shows the login's end."""
        return self.mechanism not in SERVER_TOKENS and self._counts[Direction.REQUEST] > 0

    def _is_last(self, size: int) -> bool:
        wanted = SERVER_TOKENS.get(self.mechanism or "")
        if wanted is None or (self.mechanism == "OAUTHBEARER" and size):
            return False
        return self._counts[Direction.RESPONSE] >= wanted

    def _decide(self, verdict: Verdict, step: Step) -> None:
        self.follow(verdict)
        step.verdicts.append(verdict)

    def state(self) -> dict[str, Any]:
        """JSON values for `restore`."""
        return {
            "pending": self.pending,
            "mechanism": self.mechanism,
            "tokens": self._tokens,
            "counts": self._counts,
            "switches": [[list(verdict) for verdict in switches] for switches in self._switches],
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Goes on from a result of `state`."""
        self.pending, self.mechanism = state["pending"], state["mechanism"]
        self._tokens, self._counts = list(state["tokens"]), list(state["counts"])
        for switches, saved in zip(self._switches, state["switches"], strict=True):
            switches.extend(Verdict(Direction(direction), *rest) for direction, *rest in saved)
