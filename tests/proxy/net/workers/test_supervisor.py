from __future__ import annotations

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from proxy.conversation import Cause
from proxy.net.stopping import STOP_SECONDS, Stop, Urgency
from proxy.net.workers import supervisor
from tests.proxy.net.workers.scripted import KILLED, SILENCE, Team, Worker, known


def asked(urgency: Urgency = Urgency.DRAIN) -> Stop:
    stop = Stop()
    stop.ask(urgency)
    return stop


def seconds() -> float:
    return trio.current_time()


async def test_the_supervisor_runs_the_wanted_number_of_workers(team, autojump_clock):
    workers = await team.working()
    assert [(worker.number, worker.slot) for worker in sorted(workers, key=lambda one: one.number)] in (
        [(1, 0), (2, 1)],
        [(1, 1), (2, 0)],
    )
    assert [worker.number for worker in team.supervisor.joined] == [1, 2]


async def test_a_worker_that_joins_is_greeted_before_later_messages(team, autojump_clock):
    workers = await team.working()
    team.supervisor.tell({"do": "more"})
    await team.supervisor.settled()
    assert [[said["do"] for said in worker.told] for worker in workers] == [["greet", "more"]] * 2


async def test_a_worker_that_has_not_joined_gets_no_messages(team, autojump_clock):
    await wait_all_tasks_blocked()
    team.supervisor.tell({"do": "more"})
    await team.supervisor.settled()
    assert [worker.told for worker in team.workers] == [[], []]


async def test_all_workers_have_followed_their_messages_when_settled_returns(team, nursery, autojump_clock):
    workers = await team.working()
    slow = workers[1]
    slow.does_what_it_is_told = False
    team.supervisor.tell({"do": "more"})
    before = seconds()
    await team.supervisor.settled()
    assert workers[0].told[-1]["do"] == "more"
    assert seconds() - before == pytest.approx(supervisor.SETTLE_SECONDS)


async def test_settling_does_not_wait_for_a_worker_that_ends(team, nursery, autojump_clock):
    workers = await team.working()
    workers[1].does_what_it_is_told = False
    team.supervisor.tell({"do": "more"})
    nursery.start_soon(end_soon, workers[1])
    before = seconds()
    await team.supervisor.settled()
    assert seconds() - before == pytest.approx(1)


async def end_soon(worker: Worker) -> None:
    await trio.sleep(1)
    worker.end(KILLED)


async def test_an_ended_worker_is_replaced_in_its_slot(team, caplog, autojump_clock):
    workers = await team.working()
    gone = workers[0]
    gone.end(KILLED)
    new = await team.replaced()
    assert (new.number, new.slot) == (3, gone.slot)
    assert team.vacated == [gone.slot]
    assert sorted(team.greeted) == [1, 2, 3]
    assert team.supervisor.ends == 1
    assert "worker ended; another takes its place" in caplog.text


@pytest.mark.real
async def test_the_pause_grows_while_workers_keep_ending(team, autojump_clock):
    workers = await team.working()
    worker, pauses = workers[0], []
    for _ in range(12):
        worker.end(1)
        before = seconds()
        worker = await team.replaced()
        pauses.append(seconds() - before)
    assert pauses[:3] == pytest.approx([supervisor.FIRST_PAUSE, 2 * supervisor.FIRST_PAUSE, 4 * supervisor.FIRST_PAUSE])
    assert pauses[-1] == pytest.approx(supervisor.LONGEST_PAUSE)
    await trio.sleep(supervisor.WELL_SECONDS + 1)
    worker.end(1)
    before = seconds()
    await team.replaced()
    assert seconds() - before == pytest.approx(supervisor.FIRST_PAUSE)


async def test_a_worker_that_can_not_be_started_is_tried_again(team, caplog, autojump_clock):
    team.cannot_start = OSError(12, "no memory")
    await team.supervisor.all_started()
    assert team.workers == []
    team.cannot_start = None
    await team.replaced()
    assert "no memory" in caplog.records[0].keys["reason"]


async def test_the_start_is_over_when_each_first_worker_has_joined_or_ended(team, autojump_clock):
    await wait_all_tasks_blocked()
    well, starting = team.workers
    well.join()
    await wait_all_tasks_blocked()
    well.end(KILLED)
    (await team.replaced()).join()
    with trio.move_on_after(1) as waiting:
        await team.supervisor.all_started()
    assert waiting.cancelled_caught
    starting.join()
    await team.supervisor.all_started()


NONSENSE = {
    "no JSON": "{x}",
    "no object": "[]",
    "nothing": "{}",
    "half of it": '{"do": "counted"}',
    "no question": '{"answer": 99}',
}


@pytest.mark.parametrize("text", NONSENSE.values(), ids=NONSENSE)
async def test_a_worker_that_sends_nonsense_is_killed(team, nursery, caplog, autojump_clock, text):
    workers = await team.working()
    await workers[0].talk_nonsense(text.encode())
    await wait_all_tasks_blocked()
    assert [worker.killed for worker in workers] == [True, False]
    assert "worker can't be understood" in caplog.text


async def test_calls_of_workers_are_answered(team, autojump_clock):
    workers = await team.working()
    asked = [worker.ask({"do": "say", "number": worker.number}) for worker in workers]
    assert [(await answer.wait())["said"] for answer in asked] == [worker.number for worker in workers]


async def test_an_ended_workers_last_counts_are_added(team, autojump_clock):
    gone, _ = await team.working()
    gone.traffic.opened()
    gone.traffic.closed(Cause.CLIENT_CLOSED)
    gone.say_counts()
    await wait_all_tasks_blocked()
    gone.end()
    await wait_all_tasks_blocked()
    assert team.supervisor.totals.traffic("main", known).closes[Cause.CLIENT_CLOSED] == 1


async def test_a_scrape_does_not_wait_for_one_that_hangs(team, autojump_clock):
    well, hangs = await team.working()
    hangs.traffic.opened()
    await team.supervisor.count()
    hangs.does_what_it_is_told = False
    hangs.traffic.opened()
    well.traffic.opened()
    before = seconds()
    await team.supervisor.count()
    assert seconds() - before == pytest.approx(supervisor.COUNTS_SECONDS)
    assert team.supervisor.totals.traffic("main", known).connections_opened == 2


async def test_a_stop_ends_when_all_workers_have_ended(team, autojump_clock):
    workers = await team.working()
    assert await team.supervisor.stop(10, asked())
    assert [worker.told[-1]["do"] for worker in workers] == ["stop", "stop"]
    assert len(team.workers) == 2


async def test_a_stop_reports_that_a_worker_cut_connections(team, autojump_clock):
    workers = await team.working()
    workers[1].code = 1
    assert not await team.supervisor.stop(10, asked())


async def test_a_worker_that_died_earlier_does_not_count_as_cutting_connections(team, autojump_clock):
    workers = await team.working()
    workers[0].end(KILLED)
    await team.replaced()
    assert await team.supervisor.stop(10, asked())


@pytest.mark.parametrize("urgency", [Urgency.HURRY, Urgency.AT_ONCE])
async def test_all_workers_get_a_higher_urgency(team, nursery, autojump_clock, urgency):
    workers = await team.working()
    stop = asked()
    workers[0].ends_when_told = workers[1].ends_when_told = False
    nursery.start_soon(hurry, workers, stop, urgency)
    assert await team.supervisor.stop(10, stop)
    for worker in workers:
        assert [said["urgency"] for said in worker.was_told("stop")] == [*range(1, urgency + 1)]


async def hurry(workers: list[Worker], stop: Stop, urgency: Urgency) -> None:
    for more in range(2, urgency + 1):
        await wait_all_tasks_blocked()
        for worker in workers:
            worker.ends_when_told = more == urgency
        stop.ask()


@pytest.mark.parametrize(
    ("urgency", "seconds"),
    [(Urgency.HURRY, supervisor.HURRIED_STUCK_SECONDS), (Urgency.AT_ONCE, supervisor.AT_ONCE_SECONDS)],
    ids=["hurried", "at once"],
)
async def test_a_worker_that_does_not_end_is_killed_sooner_for_a_more_urgent_stop(
    team, autojump_clock, urgency, seconds
):
    workers = await team.working()
    workers[0].ends_when_told = False
    before = trio.current_time()
    assert not await team.supervisor.stop(1000, asked(urgency))
    assert trio.current_time() - before == pytest.approx(seconds)
    assert [worker.killed for worker in workers] == [True, False]


async def test_a_worker_that_survives_its_kill_is_left_behind(team, caplog, autojump_clock):
    workers = await team.working()
    workers[0].ends_when_told, workers[0].kill = False, lambda: None
    before = trio.current_time()
    assert not await team.supervisor.stop(10, asked())
    assert trio.current_time() - before < 10 + STOP_SECONDS
    assert "left behind" in caplog.text


async def test_a_worker_that_does_not_end_is_killed(team, caplog, autojump_clock):
    workers = await team.working()
    workers[0].ends_when_told = False
    before = seconds()
    assert not await team.supervisor.stop(10, asked())
    assert seconds() - before == pytest.approx(10 + supervisor.STUCK_SECONDS)
    assert workers[0].killed
    assert not workers[1].killed
    assert "worker does not end; killed" in caplog.text


async def test_a_worker_that_has_not_joined_is_told_to_stop(team, autojump_clock):
    """The worker may have begun to record. If it were killed, its session would never be finished."""
    await wait_all_tasks_blocked()
    team.workers[1].code = 1
    assert await team.supervisor.stop(10, asked())
    assert [worker.told for worker in team.workers] == [[{"do": "stop", "urgency": Urgency.DRAIN}]] * 2
    assert [worker.killed for worker in team.workers] == [False, False]


async def test_a_worker_killed_before_it_joined_cuts_no_connection(team, autojump_clock):
    await wait_all_tasks_blocked()
    team.workers[0].ends_when_told = False
    assert await team.supervisor.stop(10, asked())
    assert [worker.killed for worker in team.workers] == [True, False]


async def test_a_worker_that_starts_during_a_stop_is_told_to_stop(nursery, autojump_clock):
    team = Team(nursery)
    team.may_start = trio.Event()
    await wait_all_tasks_blocked()
    nursery.start_soon(start_later, team)
    assert await team.supervisor.stop(10, asked())
    assert [worker.told for worker in team.workers] == [[{"do": "stop", "urgency": Urgency.DRAIN}]] * 2


async def start_later(team: Team) -> None:
    await wait_all_tasks_blocked()
    team.may_start.set()


async def test_a_stop_does_not_wait_for_a_workers_restart_pause(team, autojump_clock):
    workers = await team.working()
    workers[0].end(1)
    await wait_all_tasks_blocked()
    before = seconds()
    assert await team.supervisor.stop(10, asked())
    assert seconds() - before < supervisor.FIRST_PAUSE


async def beats(worker: Worker) -> None:
    while True:
        worker.say_counts()
        await trio.sleep(supervisor.BEAT_SECONDS)


@pytest.fixture
def few_beats(monkeypatch):
    """Makes heartbeats rare, so that hours pass quickly."""
    monkeypatch.setattr(supervisor, "BEAT_SECONDS", 10.0)


async def test_a_worker_that_never_reported_has_more_time_before_it_is_killed_and_replaced(
    team, nursery, few_beats, autojump_clock
):
    await wait_all_tasks_blocked()
    silent, well = team.workers
    well.join()
    nursery.start_soon(beats, well)
    await trio.sleep(SILENCE - 1)
    assert team.supervisor.hanging == []
    await trio.sleep(SILENCE)
    assert [worker.number for worker in team.supervisor.hanging] == [silent.number]
    assert not silent.killed
    await team.replaced()
    assert (silent.killed, well.killed) == (True, False)
    assert SILENCE * supervisor.START_FACTOR < seconds() < SILENCE * (supervisor.START_FACTOR + 0.1)
    # the start was tried, so nobody waits for it any more
    await team.supervisor.all_started()


async def test_a_worker_that_reported_and_hangs_before_it_joined_is_killed_like_a_joined_one(
    team, nursery, few_beats, autojump_clock
):
    await wait_all_tasks_blocked()
    stuck, well = team.workers
    stuck.say_counts()
    well.join()
    nursery.start_soon(beats, well)
    await team.replaced()
    assert (stuck.killed, well.killed) == (True, False)
    assert SILENCE < seconds() < SILENCE * 1.1


async def test_a_silent_worker_is_killed_and_replaced(team, nursery, few_beats, autojump_clock, caplog):
    hung, well = await team.working()
    hung.traffic.opened()
    hung.say_counts()
    nursery.start_soon(beats, well)
    await trio.sleep(SILENCE / 3 - 1)
    assert team.supervisor.hanging == []
    await trio.sleep(SILENCE / 3)
    assert [worker.number for worker in team.supervisor.hanging] == [hung.number]
    assert not hung.killed
    new = await team.replaced()
    assert (hung.killed, well.killed) == (True, False)
    assert seconds() < SILENCE * 1.5
    assert "worker hangs; killed" in caplog.text
    assert team.supervisor.hanging == []
    # its earlier counts remain
    total = team.supervisor.totals.traffic("main", known)
    assert (total.connections_opened, total.closes[Cause.PROXY_FAULT]) == (1, 1)
    nursery.start_soon(beats, new)
    await trio.sleep(SILENCE * 1.5)
    assert len(team.workers) == 3


async def test_no_worker_is_killed_for_its_silence_during_a_stop(team, nursery, few_beats, autojump_clock):
    workers = await team.working()
    workers[0].ends_when_told = workers[1].ends_when_told = False
    nursery.start_soon(team.supervisor.stop, SILENCE * 5, asked())
    await trio.sleep(SILENCE * 1.5)
    assert not any(worker.killed for worker in workers)
