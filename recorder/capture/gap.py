"""A stretch of a connection that isn't recorded, and the account of what was lost in it.

The tap's half: while a gap lasts, the tap sees exchanges end but writes nothing; the account goes into the entry that
ends the gap. The tap can't know which requests had been written before, so it names those that were in flight or kept
back, and counts later ones. The compactor's half: its own conversation's numbers show which of the named ones it has.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from proxy.conversation.conversation import Conversation
from proxy.conversation.exchange import Exchange

# the account's name for an api that the catalog doesn't know, and for frames of no exchange
OTHER = "other"

# the counts of an account, by api; sizes don't count the length's 4 bytes
_COUNTED = ("requests", "responses", "request_bytes", "response_bytes")


class Gap:
    """Counts what ends on a connection while nothing of it is written.

    `offsets`: per direction, the end of written bytes. `accounted`: the exchange whose response the last gap counted.
    """

    def __init__(
        self,
        conversation: Conversation,
        offsets: tuple[int, int],
        reason: str,
        at_ns: int,
        accounted: Exchange | None = None,
    ) -> None:
        self.conversation = conversation
        self._accounted = accounted
        self.offsets = offsets
        self.reason = reason
        self.at_ns = at_ns
        # requests below this number may have been written before
        self._first = conversation.next_exchange
        self._early_requests: dict[int, tuple[str, int]] = {}
        # responses that were whole before the gap; they had been kept back, and may have been written since
        self._early_responses: dict[int, tuple[str, int]] = {}
        self._requests, self._request_bytes = Counter[str](), Counter[str]()
        self._responses, self._response_bytes = Counter[str](), Counter[str]()

    def saw(self, finished: Iterable[Exchange], one_way: Iterable[Exchange]) -> None:
        """Counts exchanges that ended in the gap: with their response, or with their request if it has none."""
        for exchange in finished:
            if exchange is not self._accounted:
                self._responses[exchange.api or OTHER] += 1
                self._response_bytes[exchange.api or OTHER] += exchange.response_size
            self._request(exchange)
        for exchange in one_way:
            self._request(exchange)

    def note_unwritten(self, ended: Iterable[Exchange]) -> None:
        """Notes exchanges that ended before the gap, in bytes that may not have been written."""
        for exchange in ended:
            if exchange.awaits and exchange is not self._accounted:
                self._early_responses[exchange.number] = exchange.api or OTHER, exchange.response_size
            self._request(exchange)

    def account(self) -> dict[str, Any]:
        """The losses, ready for JSON, for the entry that ends the gap. Frames still arriving count as lost."""
        conversation = self.conversation
        answering, asking = conversation.responses_side.open_exchange, conversation.requests_side.open_exchange
        self.saw([answering] if answering else [], [asking] if asking and not asking.awaits else [])
        for exchange in conversation.in_flight:
            self._request(exchange)
        return {
            "reason": self.reason,
            "since_ns": self.at_ns,
            "early": [(number, *counted) for number, counted in self._early_requests.items()],
            "early_responses": [(number, *counted) for number, counted in self._early_responses.items()],
            "requests": dict(self._requests),
            "responses": dict(self._responses),
            "request_bytes": dict(self._request_bytes),
            "response_bytes": dict(self._response_bytes),
        }

    def _request(self, exchange: Exchange) -> None:
        api = exchange.api or OTHER
        if exchange.number < self._first:
            self._early_requests[exchange.number] = api, exchange.request_size
        else:
            self._requests[api] += 1
            self._request_bytes[api] += exchange.request_size


def lost_by_api(account: dict[str, Any], broken: dict[str, Any], frames: int) -> dict[str, Any]:
    """Lost requests and responses by api, with their sizes; accounts of old logs have no sizes.

    Args:
        account: of the entry that ended the gap.
        broken: what the compactor knows of the gap's beginning. `next_exchange`: the number of the first request that
            the log lacks; `next_response`: of the first request whose response the log lacks; `cut`: the api of a
            request that was cut off there ("" for an unknown one), and `cut_size`.
        frames: the number of all lost frames; those of no exchange are counted as `other`.
    """
    counts = {name: Counter(account.get(name, {})) for name in _COUNTED}
    early = [(api, *size) for number, api, *size in account["early"] if number >= broken["next_exchange"]]
    if broken["cut"] is not None:
        early.append((broken["cut"] or OTHER, broken.get("cut_size", 0)))
    for api, *size in early:
        counts["requests"][api] += 1
        counts["request_bytes"][api] += sum(size)
    for number, api, size in account.get("early_responses", ()):
        if number >= broken.get("next_response", 0):
            counts["responses"][api] += 1
            counts["response_bytes"][api] += size
    unaccounted = frames - counts["requests"].total() - counts["responses"].total()
    lost: dict[str, dict[str, int]] = {}
    for name in _COUNTED if "request_bytes" in account else _COUNTED[:2]:
        for api, count in counts[name].items():
            lost.setdefault(api, {})[name] = count
    if unaccounted > 0:
        lost.setdefault(OTHER, {})["frames"] = unaccounted
    return lost
