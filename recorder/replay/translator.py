"""The base of the rooms that translate recorded values into the target's, or learn from both answers."""

from __future__ import annotations

from abc import abstractmethod
from typing import Protocol

from recorder.replay.plan import Exchange, NotSent, Resend, Values


class Translator(Protocol):
    """A room of state. `plan` has its possible answers.

    A room says what concerns it. The other methods do nothing here: it overrides those in which it has something to
    say, and the engine calls no others (`engine.routes`).
    """

    @abstractmethod
    def concerns(self, api_key: int, version: int) -> bool:
        """True for APIs that this room translates or learns from."""

    def learns(self, api_key: int) -> bool:
        """True for those of these APIs whose answers this room learns from."""
        return True

    def request(self, exchange: Exchange, values: Values, now: int) -> NotSent | None:
        """Translates `values`, or says why the request is not sent."""
        return None

    def sent(self, exchange: Exchange, values: Values, now: int) -> None:
        """The request leaves now."""
        return

    def answered(self, exchange: Exchange, values: Values, answer: Values, now: int) -> Resend | None:
        """Both sides have answered. Returns how the request is sent again, if it has to be."""
        return None

    def lost(self, exchange: Exchange, values: Values | None) -> None:
        """No answer will come."""
        return
