"""Tests of what the profile reads from perf's text."""

from __future__ import annotations

import pytest

from bench.profile import step_times

TEXT = """
    42     7.000001000:         syscalls:sys_enter_epoll_wait: epfd: 0x00000009, events: 0x5618dfb1a010
    42     7.000002000:          syscalls:sys_exit_epoll_wait: 0x0
    42     7.000004000:        syscalls:sys_enter_sched_yield:
    42     7.000007000:         syscalls:sys_exit_sched_yield: 0x0
    42     7.000008000:         syscalls:sys_enter_epoll_wait: epfd: 0x00000009, events: 0x5618dfb1a010
    42     7.000008500:          syscalls:sys_exit_epoll_wait: 0x1
    42     7.000009000:           syscalls:sys_enter_recvfrom: fd: 0x0000000d, ubuf: 0x5618dfb5de70, size: 0x00010000
    42     7.000010000:            syscalls:sys_exit_recvfrom: 0x2b
    42     7.000014000:             syscalls:sys_enter_sendto: fd: 0x0000000e, buff: 0x5618dfb5de70, len: 0x0000002b
    42     7.000020000:              syscalls:sys_exit_sendto: 0x2b
"""


def test_the_steps_of_a_thread_are_its_calls_and_the_ways_between_them() -> None:
    found = {name: times[0] for name, times in step_times(TEXT).items()}
    assert found == {
        name: pytest.approx(us, abs=1e-3)
        for name, us in {
            "epoll_wait, nothing": 1,
            "epoll_wait, nothing -> sched_yield": 2,
            "sched_yield": 3,
            "sched_yield -> epoll_wait": 1,
            "epoll_wait": 0.5,
            "epoll_wait -> recvfrom 13": 0.5,
            "recvfrom 13": 1,
            "recvfrom 13 -> sendto 14": 4,
            "sendto 14": 6,
        }.items()
    }


def test_a_call_that_had_begun_before_is_no_step() -> None:
    _, _, later = TEXT.split("\n", 2)
    whole = {name: times for name, times in step_times(TEXT).items() if not name.startswith("epoll_wait, nothing")}
    assert step_times(later) == whole


def test_a_call_that_fails_is_a_call() -> None:
    text = """
    42     7.000001000:           syscalls:sys_enter_recvfrom: fd: 0x0000000d, ubuf: 0x5618dfb5de70, size: 0x00010000
    42     7.000002000:            syscalls:sys_exit_recvfrom: 0xfffffffffffffff5
    """
    assert [*step_times(text)] == ["recvfrom 13"]
