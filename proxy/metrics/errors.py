"""Counts the errors in responses, by API, and the responses of which not all error codes were read. For `traffic.py`.

Bodies are not decoded: a limited number of error codes is read (`proxy.wire.error_reader`); the analysis reads all.
A bare login token has no error code: a login counts as refused if the broker ends the connection instead of answering a
token.
"""

from __future__ import annotations

from collections import Counter
from enum import StrEnum

from proxy.conversation.exchange import Cause, Exchange
from proxy.conversation.login import Login
from proxy.metrics.runs import Run
from proxy.metrics.table import OTHER
from proxy.wire import apis
from proxy.wire.error_codes import ERRORS
from proxy.wire.error_reader import NOTHING, ErrorReader, FoundErrors, Unread
from proxy.wire.framing import LENGTH
from proxy.wire.keys import SASL_HANDSHAKE

# the error of a login that ends with the connection: SASL_AUTHENTICATION_FAILED
REFUSED_LOGIN = FoundErrors({58: 1})
BROKER_ENDS = (Cause.BROKER_CLOSED, Cause.BROKER_RESET)


class UnreadReason(StrEnum):
    """Why error codes were not read. The value is the metric's label; that of a reason in `Unread` is the same."""

    UNKNOWN_VERSION = Unread.UNKNOWN_VERSION.value
    MALFORMED = Unread.MALFORMED.value
    # the response has more elements than the reader of passing frames reads
    TOO_MANY_ELEMENTS = "too_many_elements"
    # a login of bare tokens ended with its connection; only its mechanism could show whether it was complete
    BARE_TOKENS = "bare_tokens"


class Errors:
    """The errors of one cluster. `named`: by API and the error's name. `unread`: by API and `UnreadReason`."""

    def __init__(self) -> None:
        self.named: Counter[tuple[str, str]] = Counter()
        self.unread: Counter[tuple[str, str]] = Counter()

    def read(self, api: str, probe: ErrorReader | None, run: Run, data: bytes, arrived: FoundErrors) -> None:
        """Counts the errors in a run's responses. For the other arguments see `Traffic.finished`.

        Args:
            probe: reads the error codes of the run's API and version; None: the catalog lacks them.
        """
        exchanges, _, one_size = run
        if probe is None:
            self.unread[api, UnreadReason.UNKNOWN_VERSION] += len(exchanges)
            return
        first, count = exchanges[0], len(exchanges)
        if one_size and first.own_answer is None:
            start, size = first.response_at, LENGTH.size + first.response_size
            if 0 <= start == exchanges[-1].response_at - size * (count - 1):
                # the responses are adjacent
                self._count(api, probe.find(data, start, size, count))
                return
        for one in exchanges:
            self._count(api, _errors_in(one, probe, data, arrived))

    def connection_ended(self, cause: Cause, login: Login) -> None:
        """Counts a login of bare tokens that ended because the broker closed the connection."""
        if cause not in BROKER_ENDS:
            return
        api = apis.api_name(SASL_HANDSHAKE) or OTHER
        if login.token_owed:
            self._count(api, REFUSED_LOGIN)
        elif login.open_ended:
            self.unread[api, UnreadReason.BARE_TOKENS] += 1

    def _count(self, api: str, errors: FoundErrors) -> None:
        if errors is NOTHING:
            return
        for code, count in errors.codes.items():
            self.named[api, ERRORS[code].name if code in ERRORS else OTHER] += count
        if errors.beyond:
            self.unread[api, UnreadReason.TOO_MANY_ELEMENTS] += errors.beyond
        if errors.malformed:
            self.unread[api, UnreadReason.MALFORMED] += errors.malformed


def _errors_in(exchange: Exchange, probe: ErrorReader, data: bytes, arrived: FoundErrors) -> FoundErrors:
    if exchange.own_answer is not None:
        return probe.find(exchange.own_answer, 0, len(exchange.own_answer))
    if exchange.response_at < 0:
        return arrived
    return probe.find(data, exchange.response_at, LENGTH.size + exchange.response_size)
