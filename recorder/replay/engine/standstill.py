"""What a replay waits for while nothing moves, as texts for people, counted. Nothing here changes anything."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from proxy.wire.apis import name_or_key
from recorder.replay.engine.item import Item, ItemState, Lane
from recorder.replay.plan import Hold

_ON_THE_WAY = {
    ItemState.HANDED_OVER: "the target's answer to {}",
    ItemState.RETRYING: "another try of {}",
    ItemState.ANSWERED: "the recorded answer to {}",
}
LEADERS = "the leaders of what {} made"
NOT_DUE = "the next request's time"


def waited_for(lanes: Iterable[Lane], now: int) -> Counter[str]:
    """What items wait for: those that have left, and those at the head of a lane. All others wait for these."""
    found = Counter(each for lane in lanes for each in _of_lane(lane, now))
    # while something else is waited for, nobody asks when the next request is due
    return found if found.keys() == {NOT_DUE} else Counter({what: n for what, n in found.items() if what != NOT_DUE})


def _of_lane(lane: Lane, now: int) -> Iterator[str]:
    for item in lane.in_play:
        if item.state is ItemState.RETRYING and item.hold is not None:
            yield _lacked(item, item.hold)
        elif item.state is ItemState.ANSWERED and item.is_recording_done:
            yield LEADERS.format(_api(item))
        elif item.state in _ON_THE_WAY:
            yield _ON_THE_WAY[item.state].format(_api(item))
    if lane.queue and lane.queue[0].state is ItemState.QUEUED:
        yield from _of_head(lane.queue[0], now)


def _of_head(item: Item, now: int) -> Iterator[str]:
    if now < item.due:
        yield NOT_DUE
    elif item.needed:
        yield f"answers that {_api(item)} needs"
    elif item.hold is not None:
        yield _lacked(item, item.hold)
    elif item.lacks_bytes:
        yield f"the capture, for {_api(item)}"


def _lacked(item: Item, hold: Hold) -> str:
    return f"what {_api(item)} lacks ({hold.reason})"


def _api(item: Item) -> str:
    return name_or_key(item.exchange.api_key)
