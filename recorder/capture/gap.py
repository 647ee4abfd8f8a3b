"""A stretch of a connection that isn't recorded, and the account of what was lost in it.

The tap's half: while a gap lasts, the tap sees exchanges end but writes nothing; the account goes into the entry that
ends the gap. It can't know which requests had been written before, so it names those that were in flight one by one,
and counts the others. The compactor's half: with the numbers of its own conversation it knows which of those it has.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from proxy.conversation.conversation import Conversation
from proxy.conversation.exchange import Exchange

# what the account calls an api that the catalog doesn't know, and frames that are no exchange's
OTHER = "other"

REASON_FULL = "queue_full"
REASON_FAULT = "recorder_fault"
REASON_DAMAGE = "spool_damaged"


class Gap:
    """What ends on a connection while nothing is written of it.

    `offsets`: behind what was written, per direction. `accounted`: whose response the gap before has counted already.
    """

    def __init__(
        self, talk: Conversation, offsets: tuple[int, int], reason: str, at_ns: int, accounted: Exchange | None = None
    ) -> None:
        self.talk = talk
        self._accounted = accounted
        self.offsets = offsets
        self.reason = reason
        self.at_ns = at_ns
        # requests below this number may have been written before
        self._first = talk.next_exchange
        self._early_requests: dict[int, str] = {}
        self._requests: Counter[str] = Counter()
        self._responses: Counter[str] = Counter()

    def saw(self, finished: Iterable[Exchange], one_way: Iterable[Exchange]) -> None:
        """Exchanges whose response, or whose request that has none, came to its end in the gap."""
        for exchange in finished:
            if exchange is not self._accounted:
                self._responses[exchange.api or OTHER] += 1
            self._request(exchange)
        for exchange in one_way:
            self._request(exchange)

    def account(self) -> dict[str, Any]:
        """What was lost, as JSON has it, for the entry that ends the gap. Frames still arriving count as lost."""
        talk = self.talk
        answering, asking = talk.responses_side.open, talk.requests_side.open
        self.saw([answering] if answering else [], [asking] if asking and not asking.awaits else [])
        for exchange in talk.in_flight:
            self._request(exchange)
        return {
            "reason": self.reason,
            "since_ns": self.at_ns,
            "early": list(self._early_requests.items()),
            "requests": dict(self._requests),
            "responses": dict(self._responses),
        }

    def _request(self, exchange: Exchange) -> None:
        api = exchange.api or OTHER
        if exchange.number < self._first:
            self._early_requests[exchange.number] = api
        else:
            self._requests[api] += 1


def lost_by_api(account: dict[str, Any], next_exchange: int, cut: str | None, frames: int) -> dict[str, Any]:
    """Requests and responses lost, by api.

    Args:
        account: of the entry that ended the gap.
        next_exchange: the number of the first request that the log doesn't have.
        cut: the api of a request that the log has only the beginning of ("" for an unknown one).
        frames: all that were lost; those that no exchange accounts for are `other`.
    """
    requests = Counter(account["requests"])
    requests.update(api for number, api in account["early"] if number >= next_exchange)
    if cut is not None:
        requests[cut or OTHER] += 1
    responses = Counter(account["responses"])
    unaccounted = frames - requests.total() - responses.total()
    lost: dict[str, dict[str, int]] = {}
    for kind, counts in (("requests", requests), ("responses", responses)):
        for api, count in counts.items():
            lost.setdefault(api, {})[kind] = count
    if unaccounted > 0:
        lost.setdefault(OTHER, {})["frames"] = unaccounted
    return lost
