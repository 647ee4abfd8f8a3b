from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st
from trio.testing import MockClock, wait_all_tasks_blocked

from proxy.conversation import Cause
from proxy.conversation.login import Login
from proxy.metrics import sums
from proxy.net.workers import supervisor, totals, worker_handle
from proxy.net.workers.totals import Totals
from tests.proxy.net.workers.scripted import KILLED, Team, Worker, known
from tests.sweeps import examples


async def test_counts_of_all_are_added(team, autojump_clock):
    for worker in await team.working():
        worker.traffic.opened()
        worker.recorder = {"recorded_bytes": 10.0, "queue_bytes": 1.0}
    await team.supervisor.count()
    assert team.supervisor.totals.traffic("main", known).connections_opened == 2
    assert team.supervisor.totals.recorded() == {"recorded_bytes": 20.0, "queue_bytes": 2.0}
    assert team.supervisor.totals.traffic("another", known).connections_opened == 0


async def test_nodes_that_are_forgotten_drop_out_of_ended_workers_counts_too(team, autojump_clock):
    gone, _ = await team.working()
    for label in ("1", "2", "bootstrap"):
        gone.traffic.connected(gone.traffic.connection(1, label, Login(decides=True)))
    await team.supervisor.count()
    gone.end(KILLED)
    await team.replaced()
    await team.supervisor.count()
    nodes = team.supervisor.totals.traffic("main", {2}.__contains__).nodes
    assert {label: (row.opened, row.closes) for label, row in nodes.items()} == {
        "2": (1, {"proxy_fault": 1}),
        "bootstrap": (1, {"proxy_fault": 1}),
    }


async def test_an_ended_workers_counts_stay_and_its_connections_count_as_closed(team, autojump_clock):
    gone, _ = await team.working()
    gone.traffic.opened()
    gone.recorder = {"gaps": 3.0, "queue_bytes": 7.0}
    await team.supervisor.count()
    gone.end(KILLED)
    await team.replaced()
    await team.supervisor.count()
    assert team.supervisor.totals.traffic("main", known).connections_opened == 1
    assert team.supervisor.totals.traffic("main", known).closes[Cause.PROXY_FAULT] == 1
    assert team.supervisor.totals.recorded() == {"gaps": 3.0, "queue_bytes": 0.0}


# any events, with a page at any time

# a thread may make a page between any two lines of these modules
KEEPERS = {module.__file__ for module in (supervisor, worker_handle, totals)}


class Page:
    """The counters of a page that is made before each line of these modules. `fallen`: those that decreased."""

    def __init__(self, of: Totals) -> None:
        self.fallen: set[str] = set()
        self._of = of
        self._most: dict[str, float] = {}
        self._is_made = False

    def make(self) -> None:
        if self._is_made:
            return
        self._is_made = True
        try:
            now = self._counters()
            self.fallen |= {name for name, most in self._most.items() if now.get(name, 0) < most}
            self._most |= now
        finally:
            self._is_made = False

    def _counters(self) -> dict[str, float]:
        told = sums.as_json(self._of.traffic("main", known))
        recorded = {name: value for name, value in self._of.recorded().items() if name not in sums.STATES}
        return {**told["closes"], **recorded, "opened": told["connections_opened"]}

    @contextmanager
    def made_between_lines(self) -> Iterator[None]:
        before = sys.gettrace()
        sys.settrace(self._trace)
        try:
            yield
        finally:
            sys.settrace(before)

    def _trace(self, frame: FrameType, event: str, _: Any) -> Any:
        if frame.f_code.co_filename not in KEEPERS:
            return None
        self.make()
        return self._trace


class Run:
    """Workers that count, report their counts, die and are replaced."""

    def __init__(self, team: Team, nursery: trio.Nursery) -> None:
        self.team = team
        self._nursery = nursery

    async def do(self, deed: str, which: int) -> None:
        worker = self._of_slot(which)
        match deed:
            case "count":
                worker.traffic.opened()
                worker.recorder = {"gaps": worker.recorder.get("gaps", 0.0) + 1, "queue_bytes": 1.0}
            case "close" if worker.traffic.connections_opened > worker.traffic.closes[Cause.CLIENT_CLOSED]:
                worker.traffic.closed(Cause.CLIENT_CLOSED)
            case "say":
                worker.say_counts()
            case "ask":
                self._nursery.start_soon(self.team.supervisor.count)
            case "die":
                worker.end(KILLED)
                await trio.sleep(supervisor.LONGEST_PAUSE)
                self.team.workers[-1].join()
            case "wait":
                await wait_all_tasks_blocked()

    def _of_slot(self, slot: int) -> Worker:
        """Returns the newest worker of a slot."""
        return [worker for worker in self.team.workers if worker.slot == slot][-1]


DEEDS = st.lists(
    st.tuples(st.sampled_from(["count", "close", "say", "ask", "die", "wait"]), st.integers(0, 1)), max_size=30
)


@pytest.mark.real
# each run makes some thousand pages
@examples(30)
@given(DEEDS)
def test_no_counter_falls_whatever_workers_do_and_whenever_a_page_is_made(deeds):
    assert trio.run(_counters_that_fell, deeds, clock=MockClock(autojump_threshold=0)) == set()


async def _counters_that_fell(deeds: list[tuple[str, int]]) -> set[str]:
    async with trio.open_nursery() as nursery:
        team = Team(nursery)
        await team.working()
        run, page = Run(team, nursery), Page(team.supervisor.totals)
        with page.made_between_lines():
            for deed, which in deeds:
                await run.do(deed, which)
            await wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    return page.fallen
