"""Finds runs of adjacent exchanges that differ only in their sizes. Counting a run takes a tenth of the time.

A burst's requests arrive in one chunk, and its responses in another. Times are compared by identity, which is fastest:
all exchanges of a chunk share one time object. Equal times in two objects only make more runs.
"""

from __future__ import annotations

from collections.abc import Sequence

from proxy.conversation.exchange import Exchange
from proxy.conversation.routes import Route

# exchanges; whether all their requests have one size; whether all their responses have one size
Run = tuple[Sequence[Exchange], bool, bool]

_NONE = -1


def runs(exchanges: Sequence[Exchange]) -> list[Run]:
    """Returns the exchanges of a step as runs, in their order."""
    if len(exchanges) == 1:
        return [(exchanges, True, True)]
    runs_so_far: list[Run] = []
    start = index = 0
    one_request_size = one_response_size = True
    # of the run's first exchange; in variables, because reading its attributes would take twice as long
    route: Route | None = None
    own_answer: bytes | None = None
    request_ns = first_ns = last_ns = previous_ns = request_size = response_size = _NONE
    for exchange in exchanges:
        if (
            exchange.response_last_ns is last_ns
            and exchange.previous_last_ns is previous_ns
            and exchange.request_last_ns is request_ns
            and exchange.response_first_ns is first_ns
            and exchange.route is route
            and exchange.own_answer is own_answer
        ):
            if exchange.request_size != request_size:
                one_request_size = False
            if exchange.response_size != response_size:
                one_response_size = False
        else:
            if index:
                runs_so_far.append((exchanges[start:index], one_request_size, one_response_size))
            start, one_request_size, one_response_size = index, True, True
            route, own_answer, request_ns = exchange.route, exchange.own_answer, exchange.request_last_ns
            first_ns, last_ns = exchange.response_first_ns, exchange.response_last_ns
            previous_ns = exchange.previous_last_ns
            request_size, response_size = exchange.request_size, exchange.response_size
        index += 1
    if index:
        runs_so_far.append((exchanges[start:] if start else exchanges, one_request_size, one_response_size))
    return runs_so_far
