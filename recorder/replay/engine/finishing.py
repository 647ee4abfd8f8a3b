"""Requests of the replay's own: heartbeats of silent members, and the end of a replay.

A replay that has played everything drains: it polls for records that consumers read in the recording and the target has
not given yet. A replay that is stopped early drops what is in play, except requests in flight that begin or end
something: it awaits their answers, so that nothing begins behind its end. Then both abort transactions and leave
groups.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable

from recorder.replay.engine.item import Lane
from recorder.replay.engine.play import Phase, Play
from recorder.replay.plan import MadeRequest, Reason, Withheld
from recorder.replay.requests import retries
from recorder.replay.requests.apis import OPENING

# How long the end may take: aborting transactions, leaving groups. For half of that time it waits for answers in
# flight, so that nothing begins behind the request that ends it.
_FINISH_NS = 10 * 10**9
_CALM_NS = _FINISH_NS // 2


class Finishing:
    """The replay's own requests, from the first heartbeat to the last LeaveGroup."""

    def __init__(self, play: Play) -> None:
        self._play = play
        self._tick_at: int | None = None
        self._made_lanes: dict[Hashable, Lane] = {}
        self._calm_until = self._leaving = 0

    def is_due(self, now: int) -> bool:
        """True if `tick` has something to do, as far as is known without a look at the members."""
        return self._tick_at is None or now >= self._tick_at or self._play.members_changed

    def tick(self, now: int) -> None:
        """Sends heartbeats of silent members that are due."""
        play = self._play
        # with every member's request in flight no next time is known: an answer tells it
        if play.members_changed or (self._tick_at is None and play.world.has_touched_groups):
            play.members_changed, self._tick_at = False, 0
        if self._tick_at is None or now < self._tick_at or play.phase not in (Phase.PLAYING, Phase.DRAINING):
            return
        made, self._tick_at = play.world.tick(now)
        for each in made:
            play.own.make(each, self._lane_of(each), None, now, self._ticked)
        if self._tick_at is not None:
            play.timers.at(self._tick_at, lambda _: None)

    def _lane_of(self, made: MadeRequest) -> Lane:
        """The lane of a made request. One that names a lane has a connection of its own: see `MadeRequest`."""
        return self._play.own.lane if made.lane is None else self._made_lanes.setdefault(made.lane, Lane(None))

    def _ticked(self, _: int) -> None:
        self._play.held.all_changed()

    def drain(self, now: int) -> None:
        """Polls for records that consumers lack, for `--drain` at most; then finishes."""
        self._play.look_how_far()
        self._play.phase = Phase.DRAINING
        until = now + self._play.options.drain
        self._play.timers.at(until, self._finish)
        self._drain_more(until, now)

    def _drain_more(self, until: int, now: int) -> None:
        if self._play.phase is not Phase.DRAINING:
            return
        owed = self._play.world.owed() if now < until else []
        if not owed:
            self._finish(now)

        def drained(at: int) -> None:
            self._play.timers.at(at + retries.FIRST_PAUSE, lambda later: self._drain_more(until, later))

        self._play.own.make_all(owed, self._lane_of, now, drained)

    def stop(self, now: int) -> None:
        """Drops what is in play, except requests in flight that leave something open on the target; then finishes."""
        play = self._play
        for lane in [*play.lanes.values(), *play.awaiting_joins]:
            waiting, lane.queue = lane.queue, deque()
            for item in waiting:
                play.withhold(item, Withheld(Reason.ENDED))
            for item in [*lane.in_play]:
                if item.is_in_flight and item.exchange.api_key in OPENING:
                    # its answer counts whatever the recording answered, and its connection stays open for it
                    item.is_recording_done, lane.closes_at = True, None
                else:
                    play.lose(item)
            play.links.hang_up(lane, only_unopened=bool(lane.in_play or lane.carries))
        self._finish(now)

    def _finish(self, now: int) -> None:
        play = self._play
        if play.phase in (Phase.FINISHING, Phase.FINISHED):
            return
        play.phase = Phase.FINISHING
        self._calm_until = now + _CALM_NS
        # at both times the engine calls `go_on`
        play.timers.at(self._calm_until, lambda _: None)
        play.timers.at(now + _FINISH_NS, self._finished)

    def go_on(self, now: int) -> None:
        """Ends what may be ended by now. Later calls end what requests in flight have begun."""
        play = self._play
        is_calm = not play.own.opening and not any(
            lane.in_play for lane in (*play.lanes.values(), *play.awaiting_joins)
        )
        at_once = now >= self._calm_until
        left = play.world.finish(is_calm=is_calm, at_once=at_once)
        for made in left:
            self._leaving += 1
            play.own.make(made, self._lane_of(made), None, now, self._has_left)
        if (is_calm or at_once) and not self._leaving:
            self._finished(now)

    def _has_left(self, _: int) -> None:
        self._leaving -= 1

    def _finished(self, _: int) -> None:
        self._play.phase = Phase.FINISHED
