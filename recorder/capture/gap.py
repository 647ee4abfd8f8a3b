"""Counts what is lost in a gap: a stretch of a connection that is not recorded.

The tap's half is `Gap`. While a gap lasts, the tap sees exchanges end, and writes nothing. The counts (the *account*)
go into the entry that ends the gap. The tap doesn't know which requests were written before the gap. So the account
lists the requests that were in flight or kept back when the gap began (`early`), and counts the later ones by API.

The compactor's half is `lost_by_api`. If the log lacks requests from number 7 on, of the early requests 5 to 8 only 7
and 8 are lost.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from proxy.conversation.conversation import Conversation
from proxy.conversation.exchange import Exchange

# stands in an account for an API that the catalog doesn't know, and for frames without an exchange
OTHER = "other"

# the counts of an account, by API; the sizes leave out each frame's length field (4 bytes)
COUNTED = ("requests", "responses", "request_bytes", "response_bytes")


class Gap:
    """Counts the exchanges that end on a connection while nothing of it is written.

    Args:
        offsets: for each direction, the stream offset after the bytes that were written before the gap.
        reason: the `cause` of the gap's event, such as `frames.GAP_FULL`.
        counted_exchange: the exchange whose response the previous gap has counted already.
    """

    def __init__(
        self,
        conversation: Conversation,
        offsets: tuple[int, int],
        reason: str,
        at_ns: int,
        counted_exchange: Exchange | None = None,
    ) -> None:
        self.conversation = conversation
        self._counted_exchange = counted_exchange
        self.offsets = offsets
        self.reason = reason
        self.at_ns = at_ns
        # requests below this number may have been written before the gap
        self._first = conversation.next_request_number
        # False if frames are lost that nobody has counted
        self.is_counted = True
        self._early_requests: dict[int, tuple[str, int]] = {}
        # responses that were whole, but kept back, when the gap began
        self._early_responses: dict[int, tuple[str, int]] = {}
        self._requests, self._request_bytes = Counter[str](), Counter[str]()
        self._responses, self._response_bytes = Counter[str](), Counter[str]()

    def count_ended(self, finished: Iterable[Exchange], one_way: Iterable[Exchange]) -> None:
        """Counts exchanges that ended in the gap: with their response, or with their request if it has none."""
        for exchange in finished:
            if exchange is not self._counted_exchange:
                self._responses[exchange.api or OTHER] += 1
                self._response_bytes[exchange.api or OTHER] += exchange.response_size
            self._count_request(exchange)
        for exchange in one_way:
            self._count_request(exchange)

    def count_unwritten(self, ended: Iterable[Exchange]) -> None:
        """Counts exchanges that ended before the gap. Their last bytes were kept back, so the log may lack them."""
        for exchange in ended:
            if exchange.awaits and exchange is not self._counted_exchange:
                self._early_responses[exchange.number] = exchange.api or OTHER, exchange.response_size
            self._count_request(exchange)

    def account(self) -> dict[str, Any]:
        """The losses as JSON values (`entry_json.AccountJson`). Frames that are still arriving count as lost."""
        conversation = self.conversation
        open_request, open_response = (
            conversation.requests_side.open_exchange,
            conversation.responses_side.open_exchange,
        )
        one_way = [open_request] if open_request and not open_request.awaits else []
        self.count_ended([open_response] if open_response else [], one_way)
        for exchange in conversation.in_flight:
            self._count_request(exchange)
        return {
            "reason": self.reason,
            "since_ns": self.at_ns,
            "early": [(number, *counted) for number, counted in self._early_requests.items()],
            "early_responses": [(number, *counted) for number, counted in self._early_responses.items()],
            "requests": dict(self._requests),
            "responses": dict(self._responses),
            "request_bytes": dict(self._request_bytes),
            "response_bytes": dict(self._response_bytes),
            "counted": self.is_counted,
        }

    def _count_request(self, exchange: Exchange) -> None:
        api = exchange.api or OTHER
        if exchange.number < self._first:
            self._early_requests[exchange.number] = api, exchange.request_size
        else:
            self._requests[api] += 1
            self._request_bytes[api] += exchange.request_size


def lost_by_api(account: dict[str, Any], broken: dict[str, Any], frames: int) -> dict[str, Any]:
    """API -> the numbers of lost requests and responses, and their sizes.

    Args:
        account: that of the entry that ended the gap.
        broken: the beginning of the gap (`ConnectionState.broken`). `next_exchange`: the number of the first request
            that the log lacks; `next_response`: the number of the first request whose response the log lacks; `cut`:
            the API of the request that was arriving ("" for an unknown API, None if there was none); `cut_size`: its
            size.
        frames: the number of all lost frames; those that the account lacks are counted as `frames` of `other`.
    """
    counts = {name: Counter(account[name]) for name in COUNTED}
    early = [(api, size) for number, api, size in account["early"] if number >= broken["next_exchange"]]
    if broken["cut"] is not None:
        early.append((broken["cut"] or OTHER, broken.get("cut_size", 0)))
    for api, size in early:
        counts["requests"][api] += 1
        counts["request_bytes"][api] += size
    for number, api, size in account["early_responses"]:
        if number >= broken.get("next_response", 0):
            counts["responses"][api] += 1
            counts["response_bytes"][api] += size
    unaccounted = frames - counts["requests"].total() - counts["responses"].total()
    lost: dict[str, dict[str, int]] = {}
    for name in COUNTED:
        for api, count in counts[name].items():
            lost.setdefault(api, {})[name] = count
    if unaccounted > 0:
        lost.setdefault(OTHER, {})["frames"] = unaccounted
    return lost
