"""Runs overlapping attempts: the next begins when the newest fails or takes long, and the first success counts.

The proxy connects to bootstrap servers in this way: a dead server costs a moment, not a whole connection timeout.
RFC 8305 ("Happy Eyeballs") describes it for hosts with several addresses.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TypeVar

import trio

from proxy.net.sockets.streams import PeerLost

T = TypeVar("T")
Attempt = Callable[[], Awaitable[T]]

# seconds until the next attempt begins, as RFC 8305, section 5 recommends
HEAD_START = 0.25


class AllLost(PeerLost):
    """No attempt succeeded. `reasons`: the attempts' errors, in the order of failing."""

    def __init__(self, reasons: Sequence[PeerLost]) -> None:
        super().__init__("; ".join(map(str, reasons)))
        self.reasons = reasons


async def race(attempts: Iterable[Attempt[T]], discard: Callable[[T], object]) -> T:
    """Returns the result of the attempt that succeeds first. Cancels the other attempts.

    Args:
        discard: closes a result; called with each result that is not returned.

    Raises:
        AllLost: each attempt has raised PeerLost.
    """
    results: list[T] = []
    reasons: list[PeerLost] = []

    async def run(attempt: Attempt[T], failed: trio.Event) -> None:
        try:
            results.append(await attempt())
        except PeerLost as lost:
            reasons.append(lost)
            failed.set()
        else:
            nursery.cancel_scope.cancel()

    try:
        async with trio.open_nursery() as nursery:
            for attempt in attempts:
                failed = trio.Event()
                nursery.start_soon(run, attempt, failed)
                with trio.move_on_after(HEAD_START):
                    await failed.wait()
    except BaseException:
        _discard_all(results, discard)
        raise
    if not results:
        raise AllLost(reasons)
    # another attempt may have succeeded before it was cancelled
    _discard_all(results[1:], discard)
    return results[0]


def _discard_all(results: Iterable[T], discard: Callable[[T], object]) -> None:
    for result in results:
        discard(result)
