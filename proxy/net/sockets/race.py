"""Attempts at one thing, of which the first that succeeds counts; each is begun early where the one before takes long.

So do clients that know several addresses of one host (RFC 8305, "Happy Eyeballs"): one that is dead costs a moment, not
all the time that it is given to answer.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TypeVar

import trio

from proxy.net.sockets.streams import PeerLost

T = TypeVar("T")
Attempt = Callable[[], Awaitable[T]]

# what RFC 8305, section 5, recommends between two attempts
HEAD_START = 0.25


class AllLost(PeerLost):
    """No attempt succeeded. `reasons`: why, in the order in which they failed."""

    def __init__(self, reasons: Sequence[PeerLost]) -> None:
        super().__init__("; ".join(map(str, reasons)))
        self.reasons = reasons


async def race(attempts: Iterable[Attempt[T]], lose: Callable[[T], object]) -> T:
    """What the attempt gives that succeeds first; the others are cancelled.

    Args:
        lose: takes a result that nobody wants any more.

    Raises:
        AllLost: each attempt has raised PeerLost.
    """
    won: list[T] = []
    reasons: list[PeerLost] = []

    async def run(attempt: Attempt[T], failed: trio.Event) -> None:
        try:
            won.append(await attempt())
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
        _lose_all(won, lose)
        raise
    if not won:
        raise AllLost(reasons)
    # another may have succeeded before it was cancelled
    _lose_all(won[1:], lose)
    return won[0]


def _lose_all(results: Iterable[T], lose: Callable[[T], object]) -> None:
    for result in results:
        lose(result)
