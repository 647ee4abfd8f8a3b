"""Counts the errors in responses, by API and by node, and how long they throttle clients. For `traffic.py`.

It also counts the responses of which not all error codes were read.

Bodies are not decoded: a limited number of error codes is read (`proxy.wire.error_reader`); the analysis reads all.
A bare login token has no error code: a login counts as refused if the broker ends the connection instead of answering a
token.
"""

from __future__ import annotations

from collections import Counter
from enum import StrEnum

from proxy.conversation.exchange import Cause, Exchange
from proxy.conversation.login import Login
from proxy.metrics.nodes import NodeRow
from proxy.metrics.runs import Run
from proxy.metrics.table import OTHER
from proxy.wire import apis
from proxy.wire.error_codes import ERRORS
from proxy.wire.error_reader import NOTHING, UNTHROTTLED, ErrorReader, FoundErrors, Unread
from proxy.wire.framing import LENGTH
from proxy.wire.keys import SASL_HANDSHAKE

# the error of a login that ends with the connection: SASL_AUTHENTICATION_FAILED
REFUSED_LOGIN = 58
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

    def read(
        self, api: str, probe: ErrorReader | None, run: Run, data: bytes, arrived: FoundErrors, node: NodeRow
    ) -> int:
        """Counts the errors in a run's responses. Returns their number. For the other arguments see `Traffic.finished`.

        Args:
            probe: reads the error codes of the run's API and version; None: the catalog lacks them.
            node: the row of the node that has answered.
        """
        exchanges, _, one_size = run
        if probe is None:
            self.unread[api, UnreadReason.UNKNOWN_VERSION] += len(exchanges)
            return 0
        first, count = exchanges[0], len(exchanges)
        if one_size and first.own_answer is None:
            start, size = first.response_at, LENGTH.size + first.response_size
            if 0 <= start == exchanges[-1].response_at - size * (count - 1):
                # the responses are adjacent
                return self._read_adjacent(api, probe, data, start, size, count, node)
        return sum(self._read_one(api, probe, one, data, arrived, node) for one in exchanges)

    def _read_one(
        self, api: str, probe: ErrorReader, one: Exchange, data: bytes, arrived: FoundErrors, node: NodeRow
    ) -> int:
        if one.own_answer is not None:
            # no error of the node's
            return self._count(api, probe.find(one.own_answer, 0, len(one.own_answer)), None)
        if one.response_at < 0:
            return self._count(api, arrived, node)
        return self._read_adjacent(api, probe, data, one.response_at, LENGTH.size + one.response_size, 1, node)

    def _read_adjacent(
        self, api: str, probe: ErrorReader, data: bytes, at: int, size: int, count: int, node: NodeRow
    ) -> int:
        """Reads `count` adjacent responses; see `ErrorReader.find`."""
        if probe.is_quiet(data, at, size, count):
            return 0
        throttled, errors = probe.throttled(data, at, size, count), probe.find(data, at, size, count)
        if throttled is UNTHROTTLED and errors is NOTHING:
            probe.note_quiet(data, at, size)
        elif throttled is not UNTHROTTLED:
            node.add_throttle(api, throttled)
        return self._count(api, errors, node)

    def connection_ended(self, cause: Cause, login: Login) -> None:
        """Counts a login of bare tokens that ended because the broker closed the connection."""
        if cause not in BROKER_ENDS:
            return
        api = apis.api_name(SASL_HANDSHAKE) or OTHER
        if login.token_owed:
            self.named[api, ERRORS[REFUSED_LOGIN].name] += 1
        elif login.open_ended:
            self.unread[api, UnreadReason.BARE_TOKENS] += 1

    def _count(self, api: str, errors: FoundErrors, node: NodeRow | None) -> int:
        """Counts what responses of one API say, also at their node if there is one. Returns the number of errors."""
        if errors is NOTHING:
            return 0
        for code, count in errors.codes.items():
            name = ERRORS[code].name if code in ERRORS else OTHER
            self.named[api, name] += count
            if node is not None:
                node.errors[name] = node.errors.get(name, 0) + count
        if errors.beyond:
            self.unread[api, UnreadReason.TOO_MANY_ELEMENTS] += errors.beyond
        if errors.malformed:
            self.unread[api, UnreadReason.MALFORMED] += errors.malformed
        return sum(errors.codes.values())
