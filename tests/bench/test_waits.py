"""Tests of what the waits are read from: perf's text of the scheduler's events."""

from __future__ import annotations

from bench.waits import Wait, table, waits

TEXT = """
   795.000000: sched:sched_wakeup: comm=load pid=7 prio=120 target_cpu=000
   795.000300: sched:sched_switch: prev_pid=5 prev_prio=130 prev_state=R ==> next_comm=load next_pid=7 next_prio=120
   795.000310: sched:sched_wakeup: comm=broker pid=6 prio=120 target_cpu=001
   795.000320: sched:sched_wakeup: comm=broker pid=6 prio=120 target_cpu=001
   795.000330: sched:sched_switch: prev_pid=0 prev_prio=120 prev_state=R ==> next_comm=broker next_pid=6 next_prio=120
   795.000400: sched:sched_switch: prev_pid=7 prev_prio=120 prev_state=S ==> next_comm=idle next_pid=0 next_prio=120
   795.000900: sched:sched_switch: prev_pid=6 prev_prio=120 prev_state=R+ ==> next_comm=python next_pid=5 next_prio=130
   795.001000: sched:sched_switch: prev_pid=5 prev_prio=130 prev_state=S ==> next_comm=load next_pid=7 next_prio=120
"""


def test_a_thread_waits_from_when_it_is_woken_or_gives_way_until_it_runs() -> None:
    found = [Wait(wait.thread, round(wait.us), wait.behind) for wait in waits(TEXT)]
    assert found == [Wait(7, 300, 5), Wait(6, 20, 0), Wait(5, 600, 6)]


def test_a_thread_that_is_woken_before_it_sleeps_does_not_wait_while_it_sleeps() -> None:
    text = """
   795.000000: sched:sched_wakeup: comm=load pid=7 prio=120 target_cpu=000
   795.000001: sched:sched_switch: prev_pid=7 prev_prio=120 prev_state=S ==> next_comm=idle next_pid=0 next_prio=120
   798.000000: sched:sched_wakeup: comm=load pid=7 prio=120 target_cpu=000
   798.000010: sched:sched_switch: prev_pid=0 prev_prio=120 prev_state=R ==> next_comm=load next_pid=7 next_prio=120
"""
    assert [round(wait.us) for wait in waits(text)] == [10]


def test_long_waits_are_told_by_name() -> None:
    found = [Wait(5, 300, 6), Wait(5, 900, 6), Wait(5, 250, 0), Wait(6, 199, 5), Wait(9, 400, 5)]
    lines = table(found, {5: "compactor", 6: "broker"}, 2).splitlines()
    assert [line.split() for line in lines[-2:]] == [
        ["compactor", "1.5", "900", "broker", "67%,", "nobody", "33%"],
        ["client", "0.5", "400", "compactor", "100%"],
    ]
