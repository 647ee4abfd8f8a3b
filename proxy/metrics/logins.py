"""Follows one connection's login by SASL, to count its outcome. For `traffic.py`.

A login is complete when the broker has answered a request of any other API: that holds for all mechanisms, however many
tokens they exchange. Where sessions end (KIP-368), a connection logs in again and again, and each login counts.
"""

from __future__ import annotations

from enum import StrEnum

from proxy.conversation.exchange import Cause
from proxy.conversation.login import Login
from proxy.metrics.errors import BROKER_ENDS
from proxy.metrics.table import OTHER

# a client may name any mechanism
MECHANISMS = frozenset(("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "GSSAPI", "AWS_MSK_IAM"))


class LoginOutcome(StrEnum):
    """How a login has ended. The value is the metric's label."""

    SUCCEEDED = "succeeded"
    # by an error code, or by the end of the connection in the place of an answer
    REFUSED = "refused"
    # the client has gone, or the connection was ended, before the login was complete
    UNFINISHED = "unfinished"


class CountedLogin:
    """One connection's login. `is_pending`: the broker has answered a step of a login without an error."""

    __slots__ = ("_login", "is_pending")

    def __init__(self, login: Login) -> None:
        self._login = login
        self.is_pending = False

    @property
    def mechanism(self) -> str:
        """The label of the mechanism: one of MECHANISMS, or `other`."""
        named = self._login.mechanism
        return named if named in MECHANISMS else OTHER

    def answered(self, *, is_refused: bool) -> LoginOutcome | None:
        """The broker has answered a SaslHandshake or SaslAuthenticate. Returns the outcome, if that is one."""
        self.is_pending = not is_refused
        return LoginOutcome.REFUSED if is_refused else None

    def succeeded(self) -> LoginOutcome | None:
        """The broker has answered a request of another API. Returns the outcome, if a login was pending."""
        return self._end(LoginOutcome.SUCCEEDED)

    def ended(self, cause: Cause) -> LoginOutcome | None:
        """The connection has ended. Returns the outcome, if a login was pending."""
        return self._end(LoginOutcome.REFUSED if cause in BROKER_ENDS else LoginOutcome.UNFINISHED)

    def _end(self, outcome: LoginOutcome) -> LoginOutcome | None:
        was_pending, self.is_pending = self.is_pending, False
        return outcome if was_pending else None
